"""How aligned indices are drawn."""

from __future__ import annotations

from harness.case import AlignedIndices, AlignedIndicesRow, Case
from harness.generators.kinds.kind import DrawnKind, PlainRequest, ReachableBatch, TotalBatch
from harness.generators.kinds.rules import each_row


def _total(batch: TotalBatch) -> AlignedIndices:
    draw, layout = batch.draw, batch.layout
    most = (layout.table_columns - layout.num_spec) * layout.block_size
    if most < 1:  # a row is too short for the columns of one request
        return AlignedIndices(rows=())
    size = layout.block_size
    rows = [
        AlignedIndicesRow(slot=slot, length=draw.boundary(0, most, (0, 1, size, size + 1, 2 * size)))
        for slot in batch.used_slots
    ]
    return AlignedIndices(rows=tuple(rows))


def _reachable(batch: ReachableBatch) -> AlignedIndices:
    return AlignedIndices(
        rows=tuple(AlignedIndicesRow(slot=row.slot, length=row.computed + row.scheduled) for row in batch.step)
    )


def _broken(case: Case, row: AlignedIndicesRow) -> str | None:
    return "a request without tokens" if row.length < 1 else None


def _plain(block_size: int, length: int, columns: int) -> PlainRequest:
    return PlainRequest(block_size, 0, AlignedIndicesRow(slot=0, length=length), columns)


ALIGNED_INDICES = DrawnKind(
    operation=AlignedIndices,
    runners=("V2",),
    total=_total,
    reachable=_reachable,
    broken=each_row(_broken),
    plain=(
        _plain(1, 1, 1),
        _plain(1, 1, 2),  # one column to spare
        _plain(1, 2, 3),
        _plain(2, 1, 1),
        _plain(2, 1, 2),
        _plain(2, 3, 3),
    ),
)
