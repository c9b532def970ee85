"""How aligned indices are drawn."""

from __future__ import annotations

from harness.case import AlignedIndices, AlignedIndicesRow, Operation
from harness.generators.kinds.kind import Kind, ReachableBatch, TotalBatch


def _total(batch: TotalBatch) -> Operation:
    draw, layout = batch.draw, batch.layout
    most = (layout.table_columns - layout.num_spec) * layout.block_size
    if most < 1:  # a row has no room for the columns of one request
        return AlignedIndices(rows=())
    size = layout.block_size
    rows = [
        AlignedIndicesRow(slot=slot, length=draw.boundary(0, most, (0, 1, size, size + 1, 2 * size)))
        for slot in batch.used_slots
    ]
    return AlignedIndices(rows=tuple(rows))


def _reachable(batch: ReachableBatch) -> Operation:
    return AlignedIndices(
        rows=tuple(AlignedIndicesRow(slot=row.slot, length=row.computed + row.scheduled) for row in batch.step)
    )


ALIGNED_INDICES = Kind("aligned-indices", ("V2",), _total, _reachable)
