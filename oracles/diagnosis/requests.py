"""Deviations of which requests, states and copies are moved at all, and of the numbers that decide a request's move."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from harness.case import (
    FRESH,
    SKIP_ROW,
    ConvState,
    InvalidCase,
    Operation,
    Postprocess,
    PostprocessEntry,
    Precopy,
    Preprocess,
    rows_of,
)
from harness.oracles.decisions import Move
from harness.oracles.diagnosis.copying import Rule, predicted
from harness.oracles.diagnosis.deviation import Deviation, Predict
from harness.oracles.diagnosis.prediction import Prediction, results_after, with_entries
from harness.oracles.diagnosis.situation import RowMove, Situation, moves_of
from harness.oracles.diagnosis.tables import by_rule

MOST_ACCEPTED = 16
"""Accepted counts that are tried for a request."""


def altered(situation: Situation, change: Callable[[Any], Any]) -> Operation | None:
    """The operation with other numbers in its rows; None if nothing changes, or the numbers are no operation."""
    rows = rows_of(situation.operation)
    try:
        changed = tuple(change(row) for row in rows)
        if changed == rows:
            return None
        return msgspec.structs.replace(situation.operation, rows=changed)
    except InvalidCase:
        return None


def judged_as(situation: Situation, operation: Operation | None) -> Iterator[Prediction]:
    """What the oracle says of another operation on the same memory."""
    if operation is None:
        return
    try:
        expected = situation.expect(operation)
    except (InvalidCase, IndexError):
        return
    yield Prediction(expected.image, with_entries(situation, expected.results))


def rows_as(change: Callable[[Any], Any], *kinds: type) -> Predict:
    """Rows with other numbers, for operations of some kinds."""

    def predict(situation: Situation) -> Iterator[Prediction]:
        if not kinds or isinstance(situation.operation, kinds):
            yield from judged_as(situation, altered(situation, change))

    return predict


def moved_as(change: Callable[[Any], Any], *kinds: type) -> Predict:
    """Rows with other numbers for what moves, while counts and results are as they must be."""

    def predict(situation: Situation) -> Iterator[Prediction]:
        if not isinstance(situation.operation, kinds):
            return
        operation = altered(situation, change)
        if operation is not None:
            yield predicted(situation, Rule(), moves_of(operation, situation.before.layout.block_size))

    return predict


def with_count(operation: Operation, row: Any, count: int) -> Any:
    """A row with another accepted count. The V2 runner passes how many tokens the new state has, which stays as it is:
    then the running state is another one."""
    if isinstance(operation, Postprocess) and operation.runner == "V2":
        running = row.new_computed - count + 1
        return msgspec.structs.replace(row, computed=running, scheduled=0, draft=0, accepted=count)
    return msgspec.structs.replace(row, accepted=count)


def counted_as(change: Callable[[Any], int]) -> Predict:
    """Other accepted counts for what moves, while counts and results afterwards are as they must be."""

    def predict(situation: Situation) -> Iterator[Prediction]:
        operation = situation.operation
        if not isinstance(operation, Postprocess | PostprocessEntry | Preprocess):
            return
        changed = altered(situation, lambda row: with_count(operation, row, change(row)))
        if changed is not None:
            yield predicted(situation, Rule(), moves_of(changed, situation.before.layout.block_size))

    return predict


def _with(**fields: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def change(row: Any) -> Any:
        return msgspec.structs.replace(row, **{name: value(row) for name, value in fields.items()})

    return change


def _without(chosen: Callable[[Sequence[RowMove]], Sequence[RowMove]]) -> Predict:
    """Only some of the rows that move are moved."""

    def predict(situation: Situation) -> Iterator[Prediction]:
        if situation.moves:
            yield predicted(situation, Rule(), chosen(situation.moves))

    return predict


def _nothing_at_high_addresses(situation: Situation) -> Iterator[Prediction]:
    if situation.case.execution.high_addresses and situation.moves:
        yield predicted(situation, Rule(), [])


def _nothing(situation: Situation) -> Iterator[Prediction]:
    if not situation.case.execution.high_addresses and situation.moves:
        yield predicted(situation, Rule(), [])


def _last_copy_missing(situation: Situation) -> Iterator[Prediction]:
    """The copy that is listed last, by requests and then states or the other way round. A list of one copy may be
    right."""
    if not situation.moves:
        return
    yield predicted(situation, Rule(), without_last=True)
    last, row = situation.before.plan.base.states[-1], situation.moves[-1].row
    yield predicted(situation, Rule(moves=lambda place, move: not (place == last and move.row == row)))
    if len(situation.moves) * len(situation.before.plan.base.states) == 1:
        yield predicted(situation, Rule())


def _skip_ignored(situation: Situation) -> Iterator[Prediction]:
    """Rows of fresh requests move from column -1; skipped rows read the entry before the first of every array."""
    operation = situation.operation
    if not isinstance(operation, Precopy):
        return
    fresh = [
        RowMove(number, row.slot, Move(row.source_column, row.destination_column, row.bias))
        for number, row in enumerate(operation.rows)
        if row.slot != SKIP_ROW and row.source_column == FRESH and row.destination_column != FRESH
    ]
    prediction = predicted(situation, Rule(), [*situation.moves, *fresh])
    if fresh:
        yield prediction
    if operation.runner == "V2":
        # Lanes past the batch may count as skipped rows. One that is not skipped reads the entry before the first of
        # each array, and its blocks in the row before the first of each table, if that says that it moves.
        arrays = [span for span in situation.before.arrays.values() if span.name != "mapping"]
        width = 4 * situation.before.layout.table_columns
        spans = [(span.start - span.item, span.start) for span in arrays]
        spans += [(start - width - 8, start) for start in situation.before.plan.base.tables]
        yield _refusing(prediction, (*prediction.outside, *spans))


def _refusing(prediction: Prediction, outside: tuple[tuple[int, int], ...]) -> Prediction:
    """A prediction with other refused accesses."""
    return dataclasses.replace(prediction, outside=outside)


# Accepted counts.


def _counts_as(change: Callable[[Any, int], int]) -> Predict:
    """Accepted counts after a postprocess as `change` gives them for a row and its right count; states are right."""

    def predict(situation: Situation) -> Iterator[Prediction]:
        operation, expected = situation.operation, situation.expected
        if not isinstance(operation, Postprocess | PostprocessEntry):
            return
        image = expected.image.copy()
        entries = {name: dict(values) for name, values in expected.results.items()}
        span = situation.before.arrays.get("accepted")
        in_place = isinstance(operation, Postprocess) and operation.runner == "V2"
        for number, row in enumerate(operation.rows):
            if row.slot == SKIP_ROW:
                continue
            if in_place and span is not None:
                at = span.start + 4 * row.slot
                image.view(at, 4).view(np.int32)[0] = change(row, expected.image.cell(at))
            for name, values in entries.items():
                place = row.slot if in_place else number
                if name.startswith("accepted") and place in values:
                    values[place] = change(row, values[place])
        yield Prediction(image, with_entries(situation, entries))

    return predict


def _accepted_after_reset(situation: Situation) -> Iterator[Prediction]:
    """Programs that read the count after another one has reset it move as if one token had been accepted."""
    operation, arrays = situation.operation, situation.before.arrays
    if not isinstance(operation, Postprocess) or operation.runner != "V2" or "accepted" not in arrays:
        return  # with V1 the counts afterwards are a result of their own
    span = arrays["accepted"]
    reset = {row.slot for row in operation.rows if row.slot != SKIP_ROW and _resets(situation, row)}
    if not reset:
        return
    late = altered(situation, lambda row: with_count(operation, row, 1) if row.slot in reset else row)
    # Programs that share the copies of a step by what moves share them in another way then: any may be missing.
    images = [predicted(situation, Rule(), []).image]
    if late is not None:
        images.append(predicted(situation, Rule(), moves_of(late, situation.before.layout.block_size)).image)
    spans = tuple((span.start + span.item * slot, span.start + span.item * (slot + 1)) for slot in sorted(reset))
    yield Prediction(situation.expected.image, results_after(situation), either=images, raced=spans)
    if situation.case.execution.warps == "apart":
        # A program's warps read the count for themselves, one of them before another one has reset it.
        yield Prediction(situation.expected.image, results_after(situation), either=images)
    for image in images:
        yield Prediction(image, results_after(situation))


def _resets(situation: Situation, row: Any) -> bool:
    size = situation.before.layout.block_size
    aligned = row.new_computed // size * size
    return bool(aligned >= row.running and row.state_column == aligned // size - 1)


def _if_slot(operation: Operation, slot: int, count: int) -> Callable[[Any], Any]:
    return lambda row: with_count(operation, row, count) if row.slot == slot else row


def _another_count(situation: Situation) -> Iterator[Prediction]:
    """One request moves as if another number of tokens had been accepted."""
    operation = situation.operation
    if not isinstance(operation, Postprocess | PostprocessEntry | Preprocess):
        return
    for row in rows_of(operation):
        if row.slot == SKIP_ROW:
            continue
        for count in range(min(MOST_ACCEPTED, situation.before.layout.num_spec + 2)):
            changed = altered(situation, _if_slot(operation, row.slot, count))
            if changed is None:
                continue
            as_counted = predicted(situation, Rule(), moves_of(changed, situation.before.layout.block_size))
            for prediction in (as_counted, *judged_as(situation, changed)):
                yield dataclasses.replace(prediction, fitted=f"the count {count} for slot {row.slot}")


POST = (Postprocess, PostprocessEntry)

REQUESTS = (
    Deviation("nothing-moved", "nothing moved", "no state moved at all", _nothing),
    Deviation(
        "signed-address",
        "signed address",
        "states whose address is negative as a signed number were left out",
        _nothing_at_high_addresses,
    ),
    Deviation(
        "first-request-left-out", "requests", "the first request that moves were left out", _without(lambda m: m[1:])
    ),
    Deviation(
        "last-request-left-out", "requests", "the last request that moves were left out", _without(lambda m: m[:-1])
    ),
    Deviation("only-first-request", "requests", "only the first request moved", _without(lambda m: m[:1])),
    Deviation("last-copy-left-out", "list of copies", "the last copy of the list were left out", _last_copy_missing),
    Deviation(
        "windows-left-out",
        "kinds of states",
        "only temporal states moved",
        by_rule(Rule(moves=lambda place, move: not isinstance(place.state, ConvState))),
    ),
    Deviation(
        "temporal-states-left-out",
        "kinds of states",
        "only windows moved",
        by_rule(Rule(moves=lambda place, move: isinstance(place.state, ConvState))),
    ),
    Deviation(
        "first-group-only",
        "groups left out",
        "only the states of the first group moved",
        by_rule(Rule(moves=lambda place, move: place.group == 0)),
    ),
    Deviation(
        "first-layer-only",
        "layers left out",
        "only the states of the first layer of a group moved",
        by_rule(Rule(moves=lambda place, move: place.layer == 0)),
    ),
    Deviation("skip-ignored", "skip", "rows that have to be skipped, or have no state yet, were moved", _skip_ignored),
    Deviation(
        "reset-lost",
        "reset",
        "accepted counts kept their value where the state stays in its column",
        _counts_as(lambda row, right: row.accepted),
    ),
    Deviation("reset-always", "reset", "every accepted count became 1", _counts_as(lambda row, right: 1)),
    Deviation(
        "count-read-after-reset",
        "count after reset",
        "programs read an accepted count that another one had already reset",
        _accepted_after_reset,
    ),
    Deviation(
        "accepted-one-more",
        "accepted count",
        "one token more had been accepted",
        counted_as(lambda row: row.accepted + 1),
    ),
    Deviation(
        "accepted-ignored",
        "accepted count",
        "only one token had been accepted",
        counted_as(lambda row: 1),
    ),
    Deviation(
        "drafts-not-taken-off",
        "drafts",
        "drafts counted as computed",
        moved_as(_with(draft=lambda row: 0), *POST),
    ),
    Deviation(
        "another-accepted-count",
        "another count",
        "one request's accepted count were another number",
        _another_count,
        loose=True,
    ),
)
