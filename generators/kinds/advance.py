"""How advance is drawn."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from harness.case import FRESH, Advance, AdvanceRow, Case
from harness.generators.kinds.kind import DrawnKind, ReachableBatch, TotalBatch
from harness.generators.kinds.rules import each_row, impossible_accepted
from harness.generators.simulator import Scheduled

LARGEST_COUNT = 2**30 - 1


def advance_row(row: Scheduled) -> AdvanceRow:
    """A request before its step; the accepted count is still that of the previous step."""
    return AdvanceRow(
        slot=row.slot,
        state_column=row.previous_column,
        accepted=row.bias + 1,
        computed=row.computed,
        query_length=row.scheduled,
    )


def _total(batch: TotalBatch) -> Advance:
    draw = batch.draw
    start = 0 if draw.boolean(0.8) else draw.boundary(1, 2**20)
    return Advance(rows=tuple([_row(batch, slot) for slot in batch.used_slots]), query_start=start)


def _row(batch: TotalBatch, slot: int) -> AdvanceRow:
    draw, size = batch.draw, batch.layout.block_size
    how = draw.integer(0, 9)
    if how == 0:  # large, but the sum over a batch still fits int32
        computed, query = LARGEST_COUNT - draw.integer(0, 3), draw.integer(0, 3)
    else:
        computed = draw.boundary(0, 6 * size, (size, 2 * size))
        query = draw.boundary(0 if computed else 1, 3 * size, (1, size, -computed % size or size))
    column = (computed + query - 1) // size
    state = draw.weighted(((column - 1, 4), (column, 3), (FRESH, 2), (column + 1, 1), (0, 1), (2**20, 1)))
    return AdvanceRow(
        slot=slot,
        state_column=min(max(state, FRESH), 2**20),
        accepted=draw.boundary(0, batch.layout.num_spec + 2, (1, 2)),
        computed=computed,
        query_length=query,
    )


def _reachable(batch: ReachableBatch) -> Advance:
    return Advance(rows=tuple(advance_row(row) for row in batch.step))


def _moves(row: Scheduled, block_size: int, decoding: bool) -> bool:
    return row.precopies and (not decoding or row.bias > 0)


def _broken(case: Case, row: AdvanceRow) -> str | None:
    text = impossible_accepted(case, row.accepted)
    if text:
        return text
    if row.state_column == FRESH and row.accepted > 1:
        return "tokens were accepted before there was a state"
    return "nothing is scheduled" if row.query_length < 1 else None


def _simpler(operation: Advance) -> Iterator[Advance]:
    if operation.query_start:
        yield msgspec.structs.replace(operation, query_start=0)


ADVANCE = DrawnKind(
    operation=Advance,
    runners=("V2",),
    total=_total,
    reachable=_reachable,
    moves=_moves,
    broken=each_row(_broken),
    simpler=_simpler,
)
