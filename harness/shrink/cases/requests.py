"""Passes over the numbers of requests: each toward its minimum, with dependent numbers kept consistent."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from harness.case import SKIP_ROW, Case, InvalidCase, PostprocessRow, PrecopyRow, Row, landing, rows_of
from harness.shrink.cases import edits
from harness.shrink.cases.edits import replace
from harness.shrink.proposals import Proposal, down_to_one, toward


def smaller_block_size(case: Case) -> Iterator[Proposal[Case]]:
    """Fewer tokens per block, the same columns and biases."""
    for size in toward(case.layout.block_size, 1):
        yield lambda size=size: _with_block_size(case, size)  # type: ignore[misc]


def _with_block_size(case: Case, size: int) -> Case:
    """Keep each postprocess row's destination column and bias under another block size."""
    old = case.layout.block_size
    program = []
    for operation in case.program:
        rows: list[Row] = []
        for row in rows_of(operation):
            if isinstance(row, PostprocessRow) and row.slot != SKIP_ROW:
                landed = landing(row.running, row.accepted, old)
                if landed is not None:
                    bias = landed.bias
                    running = (landed.column + 1) * size - bias
                    extra = min(row.accepted - 1 - bias, size - 1)  # tokens past the boundary stay within a block
                    row = replace(  # noqa: PLW2901
                        row, computed=running - row.scheduled + row.draft, accepted=bias + 1 + extra
                    )
                if row.computed < 0:
                    raise InvalidCase("the row does not fit a smaller block")
            rows.append(row)
        program.append(edits.with_rows(operation, tuple(rows)))
    return replace(case, program=tuple(program), layout=replace(case.layout, block_size=size))


def smaller_numbers(case: Case) -> Iterator[Proposal[Case]]:
    """Each number of each row toward its minimum, with dependent numbers kept consistent."""
    for index, operation in enumerate(case.program):
        for at, row in enumerate(rows_of(operation)):
            if row.slot == SKIP_ROW:
                continue
            candidates: Iterator[Row]
            if isinstance(row, PostprocessRow):
                candidates = _postprocess_rows(row)
            elif isinstance(row, PrecopyRow):
                candidates = _precopy_rows(row)
            else:
                candidates = _other_rows(row)
            for candidate in candidates:
                yield lambda i=index, at=at, c=candidate: edits.with_row(case, i, at, c)  # type: ignore[misc]


def _postprocess_rows(row: PostprocessRow) -> Iterator[PostprocessRow]:
    ahead = row.scheduled - row.draft - 1
    if ahead > 0:  # the same running state, reached by a decode step
        yield replace(row, scheduled=row.draft + 1, computed=row.computed + ahead)
    least = max(row.accepted - 1, 0)
    for draft in toward(row.draft, least):  # the same running state with fewer drafts
        yield replace(row, draft=draft, scheduled=row.scheduled - (row.draft - draft))
    for accepted in toward(row.accepted, 1):
        yield replace(row, accepted=accepted)
    for less in down_to_one(row.accepted - 1):  # a smaller bias: the same new count, fewer drafts in front of it
        if row.draft >= less:
            yield replace(
                row,
                accepted=row.accepted - less,
                draft=row.draft - less,
                scheduled=row.scheduled - less,
                computed=row.computed + less,
            )
    for state_column in toward(row.state_column, 0):
        yield replace(row, state_column=state_column)
    for computed in toward(row.computed, 0):
        yield replace(row, computed=computed)
    for scheduled in toward(row.scheduled, 1):
        yield replace(row, scheduled=scheduled)


def _precopy_rows(row: PrecopyRow) -> Iterator[PrecopyRow]:
    for bias in toward(row.bias, 0):
        yield replace(row, bias=bias)
    for column in toward(row.destination_column, 0):
        yield replace(row, destination_column=column)
    for column in toward(row.source_column, 0):
        yield replace(row, source_column=column)
    if row.source_column > row.destination_column >= 0:
        yield replace(row, source_column=row.destination_column, destination_column=row.source_column)


def _other_rows(row: Row) -> Iterator[Row]:
    """Each number separately, and without what may be left out."""
    for name, value in msgspec.structs.asdict(row).items():
        if value is True:
            yield replace(row, **{name: False})
        elif isinstance(value, int) and name != "slot":
            for less in toward(value, 0):
                yield replace(row, **{name: less})
