"""How calls of the postprocess entry point are drawn."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from harness.case import PostprocessEntry
from harness.generators.kinds.kind import DrawnKind, ReachableBatch, TotalBatch
from harness.generators.kinds.migration import broken_postprocesses, postprocess_moves, postprocess_row

FIRST_USE = 0.1


def _total(batch: TotalBatch) -> PostprocessEntry:
    rows = tuple([batch.rows.postprocess(slot) for slot in batch.slots])
    return PostprocessEntry(rows=rows, first_use=bool(rows) and batch.draw.boolean(FIRST_USE))


def _reachable(batch: ReachableBatch) -> PostprocessEntry:
    rows = tuple(postprocess_row(row, row.slot) for row in batch.step)
    return PostprocessEntry(rows=rows, first_use=bool(rows) and batch.draw.boolean(FIRST_USE))


def _simpler(operation: PostprocessEntry) -> Iterator[PostprocessEntry]:
    if operation.first_use:
        yield msgspec.structs.replace(operation, first_use=False)


POSTPROCESS_ENTRY = DrawnKind(
    operation=PostprocessEntry,
    runners=("V1",),
    total=_total,
    reachable=_reachable,
    moves=postprocess_moves,
    broken=broken_postprocesses,
    simpler=_simpler,
)
