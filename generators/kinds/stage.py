"""How staging is drawn."""

from __future__ import annotations

from harness.case import Operation, Stage, StageRow
from harness.generators.draw import Draw
from harness.generators.kinds.kind import Kind, ReachableBatch, TotalBatch

LARGEST = 2**30


def _total(batch: TotalBatch) -> Operation:
    draw = batch.draw
    missing = draw.boolean(0.15)
    rows = [
        StageRow(
            slot=slot,
            state_column=None if missing and draw.boolean(0.3) else draw.boundary(0, 2**20),
            scheduled=draw.boundary(0, LARGEST, (1,)),
            computed=draw.boundary(0, LARGEST),
            draft=draw.boundary(0, 40),
        )
        for slot in batch.slots
    ]
    return Stage(rows=tuple(rows), waiting=_waiting(draw, batch.layout.table_rows - len(rows)))


def _waiting(draw: Draw, most: int) -> int:
    return draw.integer(0, min(most, 3)) if draw.boolean() else 0


def _reachable(batch: ReachableBatch) -> Operation:
    rows = [
        StageRow(
            slot=row.slot, state_column=row.column, scheduled=row.scheduled, computed=row.computed, draft=row.draft
        )
        for row in batch.step
    ]
    return Stage(rows=tuple(rows), waiting=_waiting(batch.draw, batch.layout.table_rows - len(rows)))


STAGE = Kind("stage", ("V1",), _total, _reachable)
