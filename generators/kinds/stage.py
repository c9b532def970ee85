"""How staging is drawn."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from harness.case import Case, Stage, StageRow
from harness.generators.draw import Draw
from harness.generators.kinds.kind import DrawnKind, ReachableBatch, TotalBatch
from harness.generators.kinds.rules import each_row

LARGEST = 2**30


def _total(batch: TotalBatch) -> Stage:
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


def _reachable(batch: ReachableBatch) -> Stage:
    rows = [
        StageRow(
            slot=row.slot, state_column=row.column, scheduled=row.scheduled, computed=row.computed, draft=row.draft
        )
        for row in batch.step
    ]
    return Stage(rows=tuple(rows), waiting=_waiting(batch.draw, batch.layout.table_rows - len(rows)))


def _broken(case: Case, row: StageRow) -> str | None:
    if row.scheduled < 1:
        return "nothing is scheduled"
    return "preprocess gives every request a column" if row.state_column is None else None


def _simpler(operation: Stage) -> Iterator[Stage]:
    if operation.waiting:
        yield msgspec.structs.replace(operation, waiting=0)


STAGE = DrawnKind(
    operation=Stage, runners=("V1",), total=_total, reachable=_reachable, broken=each_row(_broken), simpler=_simpler
)
