"""How calls of the postprocess entry point are drawn."""

from __future__ import annotations

from harness.case import Operation, PostprocessEntry
from harness.generators.kinds.kind import Kind, ReachableBatch, TotalBatch
from harness.generators.kinds.migration import postprocess_moves, postprocess_row

FIRST_USE = 0.1


def _total(batch: TotalBatch) -> Operation:
    rows = tuple([batch.rows.postprocess(slot) for slot in batch.slots])
    return PostprocessEntry(rows=rows, first_use=bool(rows) and batch.draw.boolean(FIRST_USE))


def _reachable(batch: ReachableBatch) -> Operation:
    rows = tuple(postprocess_row(row, row.slot) for row in batch.step)
    return PostprocessEntry(rows=rows, first_use=bool(rows) and batch.draw.boolean(FIRST_USE))


POSTPROCESS_ENTRY = Kind("postprocess-entry", ("V1",), _total, _reachable, postprocess_moves)
