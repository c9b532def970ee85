"""Deviations of the operations around a step: advance, counts, indices, staging, and the host's bookkeeping."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from harness.case import (
    FRESH,
    SKIP_ROW,
    Advance,
    AlignedIndices,
    AllMode,
    FillAccepted,
    PostprocessEntry,
    Preprocess,
    ScatterAccepted,
    Stage,
)
from harness.case.operations.results import (
    ACCEPTED_ON_HOST,
    ALIGNED_INDICES,
    COLUMNS,
    DEVICE,
    HOST,
    PREVIOUS_COLUMN,
    staged_name,
)
from harness.oracles.decisions import Move
from harness.oracles.diagnosis.copying import Rule, predicted
from harness.oracles.diagnosis.deviation import Deviation, Predict
from harness.oracles.diagnosis.prediction import Prediction, results_after, with_entries
from harness.oracles.diagnosis.requests import altered, rows_as
from harness.oracles.diagnosis.situation import RowMove, Situation, moves_of


def _written(situation: Situation, array: str, entries: Mapping[int, int]) -> Prediction:
    """What is right, but for entries of one argument."""
    image = situation.expected.image.copy()
    span = situation.before.arrays[array]
    image.view(span.start, span.size).view(np.int32)[list(entries)] = list(entries.values())
    return Prediction(image, results_after(situation))


def _fresh_reset(situation: Situation) -> Iterator[Prediction]:
    operation = situation.operation
    if isinstance(operation, Advance):
        yield _written(situation, "accepted", {row.slot: 1 for row in operation.rows if row.state_column == FRESH})


def _never_reset(situation: Situation) -> Iterator[Prediction]:
    operation = situation.operation
    if isinstance(operation, Advance):
        yield _written(situation, "accepted", {row.slot: row.accepted for row in operation.rows})


def _always_reset(situation: Situation) -> Iterator[Prediction]:
    operation = situation.operation
    if isinstance(operation, Advance):
        yield _written(situation, "accepted", {row.slot: 1 for row in operation.rows})


def _bias_is_count(situation: Situation) -> Iterator[Prediction]:
    operation = situation.operation
    if isinstance(operation, Advance):
        for less in (0, 1):
            entries = {row.slot: row.accepted - less for row in operation.rows}
            yield _written(situation, "bias", entries).in_form(less)


def _advance_column(change: Callable[[Any, int], int]) -> Predict:
    def predict(situation: Situation) -> Iterator[Prediction]:
        operation = situation.operation
        if not isinstance(operation, Advance):
            return
        size = situation.before.layout.block_size
        image = situation.expected.image.copy()
        column = {row.slot: change(row, size) for row in operation.rows}
        count = {
            row.slot: 1 if row.state_column >= 0 and row.state_column != column[row.slot] else row.accepted
            for row in operation.rows
        }
        for name, entries in (("state_column", column), ("accepted", count)):
            span = situation.before.arrays[name]
            image.view(span.start, span.size).view(np.int32)[list(entries)] = list(entries.values())
        yield Prediction(image, results_after(situation))

    return predict


def _in_form(form: int, predictions: Iterable[Prediction]) -> Iterator[Prediction]:
    return (prediction.in_form(form) for prediction in predictions)


def _counts_below_one(kind: type[FillAccepted | ScatterAccepted]) -> Predict:
    def predict(situation: Situation) -> Iterator[Prediction]:
        operation = situation.operation
        if isinstance(operation, kind):
            if isinstance(operation, FillAccepted):
                counts = {row.slot: operation.sampled for row in operation.rows}
            else:
                counts = {row.slot: row.sampled for row in operation.rows}
            counts.pop(SKIP_ROW, None)
            yield _written(situation, "accepted", counts)

    return predict


def _whole_views(situation: Situation) -> Iterator[Prediction]:
    """All entries of one view or of several go to the device: which of them, what was found decides."""
    if not isinstance(situation.operation, Stage | PostprocessEntry | Preprocess):
        return
    results = results_after(situation)
    for name, found in situation.found_results.items():
        whole = situation.found_results.get(name.replace(DEVICE, HOST, 1))
        if name.startswith(f"{DEVICE} ") and whole is not None and np.array_equal(found, whole):
            results[name] = whole
    yield Prediction(situation.expected.image, results)


def _not_sent(situation: Situation) -> Iterator[Prediction]:
    """What one view holds does not reach the device."""
    if not isinstance(situation.operation, Stage | PostprocessEntry | Preprocess):
        return
    right = results_after(situation)
    for name in right:
        if name.startswith(f"{DEVICE} "):
            yield Prediction(situation.expected.image, {**right, name: situation.results[name]}).in_form(name)


def _late(situation: Situation) -> Iterator[Prediction]:
    """The host writes a view after it has begun to send it."""
    if situation.late_writes:
        results = {name: situation.found_results[name] for name in situation.found_results}
        yield Prediction(situation.found, results, late_writes=True)


def _result_entry_kept(name: str, entry: int) -> Predict:
    """One entry of a result stays as it was."""

    def predict(situation: Situation) -> Iterator[Prediction]:
        entries = {key: dict(values) for key, values in situation.expected.results.items()}
        if len(entries.get(name, {})) < 1 or name not in situation.results:
            return
        places = sorted(entries[name])
        del entries[name][places[entry]]
        yield Prediction(situation.expected.image, with_entries(situation, entries))

    return predict


def _columns_kept(situation: Situation) -> Iterator[Prediction]:
    """The column of a request that did not decode is remembered."""
    operation = situation.operation
    if not isinstance(operation, AllMode):
        return
    entries = {name: dict(values) for name, values in situation.expected.results.items()}
    spec = situation.before.layout.num_spec
    for number, row in enumerate(operation.rows):
        if spec and row.scheduled != 1 + spec and not row.resumed and row.state_column is not None:
            entries[COLUMNS][number] = row.state_column
    yield Prediction(situation.expected.image, with_entries(situation, entries))


def _resumed_kept(situation: Situation) -> Iterator[Prediction]:
    """The column of a resumed request is not forgotten."""
    operation = situation.operation
    if isinstance(operation, AllMode):
        yield from rows_as(_not_resumed, AllMode)(situation)
    if not isinstance(operation, Preprocess):
        return
    changed = altered(situation, _not_resumed)
    if changed is None:
        return
    size = situation.before.layout.block_size
    entries = {name: dict(values) for name, values in situation.expected.results.items()}
    for number, row in enumerate(operation.rows):
        if not row.resumed or row.state_column is None:
            continue
        moves = row.state_column != row.destination_column(size)
        entries[ACCEPTED_ON_HOST].pop(number, None)
        if moves:
            entries[ACCEPTED_ON_HOST][number] = 1
        for side in (HOST, DEVICE):
            for name, value in (("source_column", row.state_column), ("bias", row.accepted - 1)):
                if staged_name(side, name) in entries:
                    entries[staged_name(side, name)][number] = value if moves else FRESH if name != "bias" else 0
    yield predicted(situation, Rule(), moves_of(changed, size), with_entries(situation, entries))


def _not_resumed(row: Any) -> Any:
    return msgspec.structs.replace(row, resumed=False) if row.resumed else row


def _absent_kept(situation: Situation) -> Iterator[Prediction]:
    operation = situation.operation
    if not isinstance(operation, Preprocess | AllMode):
        return
    entries = {name: dict(values) for name, values in situation.expected.results.items()}
    for absence in ("finished", "preempted"):
        kept = {name: dict(values) for name, values in entries.items()}
        for number, absent in enumerate(operation.absent):
            if absent.absence == absence and absent.state_column is not None:
                kept[COLUMNS][len(operation.rows) + number] = absent.state_column
        yield Prediction(situation.expected.image, with_entries(situation, kept)).in_form(absence)


def _accepted_not_reset(situation: Situation) -> Iterator[Prediction]:
    """The host's accepted counts of requests that moved are not reset before the next step."""
    if isinstance(situation.operation, Preprocess):
        entries = {name: values for name, values in situation.expected.results.items() if name != ACCEPTED_ON_HOST}
        yield Prediction(situation.expected.image, with_entries(situation, entries))


def _previous_not_cleared(situation: Situation) -> Iterator[Prediction]:
    """Entries past the batch are not cleared in the staged view."""
    operation = situation.operation
    if not isinstance(operation, AllMode):
        return
    entries = {name: dict(values) for name, values in situation.expected.results.items()}
    for side in (HOST, DEVICE):
        values = entries.get(staged_name(side, PREVIOUS_COLUMN), {})
        for entry in list(values):
            if entry >= len(operation.rows):
                del values[entry]
    yield Prediction(situation.expected.image, with_entries(situation, entries))


def _views_not_cleared(situation: Situation) -> Iterator[Prediction]:
    """Rows that do not move keep what an earlier step left in the views of source columns and biases."""
    operation = situation.operation
    names = ("source_column", "bias")
    if not isinstance(operation, Preprocess) or staged_name(HOST, names[0]) not in situation.results:
        return
    moving = {move.row for move in situation.moves}
    still = [(number, row) for number, row in enumerate(operation.rows) if number not in moving]
    for cleared in ((), names[:1], names[1:]):
        entries = {name: dict(values) for name, values in situation.expected.results.items()}
        held = {name: situation.results[staged_name(HOST, name)] for name in names}
        for name in names:
            for number, _ in still if name not in cleared else ():
                for side in (HOST, DEVICE):
                    entries.setdefault(staged_name(side, name), {})[number] = int(held[name][number])
        kept = [
            RowMove(number, row.slot, Move(source, row.destination_column(situation.before.layout.block_size), bias))
            for number, row in still
            for source in [FRESH if names[0] in cleared else int(held[names[0]][number])]
            for bias in [0 if names[1] in cleared else int(held[names[1]][number])]
            if source != FRESH
        ]
        yield predicted(situation, Rule(), [*situation.moves, *kept], with_entries(situation, entries)).in_form(
            " ".join(cleared)
        )


def _first_column(change: Callable[[int, int], int]) -> Predict:
    """Aligned indices that begin in the column that `change` gives for a length and the block size. Columns past the
    table row may hold anything."""

    def predict(situation: Situation) -> Iterator[Prediction]:
        operation = situation.operation
        if not isinstance(operation, AlignedIndices):
            return
        layout, results = situation.before.layout, results_after(situation)
        columns = 1 + layout.num_spec
        ids, found = results[ALIGNED_INDICES], situation.found_results[ALIGNED_INDICES]
        for group in range(len(layout.groups)):
            for number, row in enumerate(operation.rows):
                first = change(row.length, layout.block_size)
                for place in range(columns):
                    entry = (group * layout.table_rows + number) * columns + place
                    inside = 0 <= first + place < layout.table_columns
                    ids[entry] = situation.before.cell(group, row.slot, first + place) if inside else found[entry]
        yield Prediction(situation.expected.image, results)

    return predict


def _right_column(length: int, size: int) -> int:
    return max((length - 1) // size, 0)


HOST_SIDE = (
    Deviation(
        "fresh-counts-reset",
        "reset of fresh requests",
        "a request without a state had left its column, so that its accepted count became 1",
        _fresh_reset,
    ),
    Deviation("advance-never-resets", "reset in advance", "advance reset no accepted count", _never_reset),
    Deviation("advance-always-resets", "reset in advance", "advance reset every accepted count", _always_reset),
    Deviation("bias-is-count", "bias of advance", "the bias were the accepted count, or not limited", _bias_is_count),
    Deviation(
        "advance-column-off",
        "column of advance",
        "the new column were that after the last token, or of the first one",
        lambda situation: (
            prediction
            for number, change in enumerate(
                (
                    lambda row, size: (row.computed + row.query_length) // size,
                    lambda row, size: row.computed // size,
                    lambda row, size: max(row.computed - 1, 0) // size,
                )
            )
            for prediction in _in_form(number, _advance_column(change)(situation))
        ),
    ),
    Deviation(
        "scattered-zero",
        "least count",
        "the accepted count of a request that sampled nothing became 0",
        _counts_below_one(ScatterAccepted),
    ),
    Deviation(
        "filled-zero",
        "least count",
        "the accepted counts of a batch that sampled nothing became 0",
        _counts_below_one(FillAccepted),
    ),
    Deviation(
        "full-block-in-next-column",
        "column of a length",
        "a length that fills its last block ended in the next column",
        _first_column(lambda length, size: length // size),
    ),
    Deviation(
        "indices-column-off",
        "column of a length",
        "aligned indices began a column too far right or left",
        lambda situation: itertools.chain(
            _in_form(1, _first_column(lambda length, size: _right_column(length, size) + 1)(situation)),
            _in_form(-1, _first_column(lambda length, size: max(_right_column(length, size) - 1, 0))(situation)),
        ),
    ),
    Deviation(
        "whole-view-sent",
        "extent of staging",
        "whole views were sent to the device, not only the entries of the batch",
        _whole_views,
    ),
    Deviation("view-not-sent", "view not sent", "a view were not sent to the device", _not_sent),
    Deviation(
        "view-written-late", "late write", "the host wrote a view after it had begun to send it to the device", _late
    ),
    Deviation(
        "first-count-not-copied",
        "count not copied",
        "the accepted count of the first request did not reach the host",
        _result_entry_kept(ACCEPTED_ON_HOST, 0),
    ),
    Deviation(
        "last-count-not-copied",
        "count not copied",
        "the accepted count of the last request did not reach the host",
        _result_entry_kept(ACCEPTED_ON_HOST, -1),
    ),
    Deviation(
        "columns-of-prefills-kept",
        "columns kept",
        "the column of a request that did not decode were remembered",
        _columns_kept,
    ),
    Deviation(
        "columns-of-resumed-kept",
        "columns of resumed",
        "the column of a resumed request were not forgotten",
        _resumed_kept,
    ),
    Deviation(
        "columns-of-absent-kept",
        "columns of absent",
        "the column of a finished or preempted request were not forgotten",
        _absent_kept,
    ),
    Deviation(
        "host-counts-not-reset",
        "host counts",
        "accepted counts on the host were not reset where a state has moved",
        _accepted_not_reset,
    ),
    Deviation(
        "views-not-cleared",
        "views not cleared",
        "rows that do not move kept the source column or the bias that an earlier step had left",
        _views_not_cleared,
    ),
    Deviation(
        "previous-columns-not-cleared",
        "previous columns",
        "entries past the batch of the previous columns were not cleared",
        _previous_not_cleared,
    ),
)
