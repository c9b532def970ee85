"""How scatters and fills of accepted counts are drawn."""

from __future__ import annotations

from collections.abc import Sequence

from harness.case import SKIP_ROW, FillAccepted, FillAcceptedRow, Operation, ScatterAccepted, ScatterAcceptedRow
from harness.generators.draw import Draw
from harness.generators.kinds.kind import Kind, ReachableBatch, TotalBatch

LARGEST = 2**30


def _sampled(draw: Draw, num_spec: int) -> int:
    return LARGEST if draw.boolean(0.02) else draw.boundary(0, num_spec + 2, (0, 1))


def _total_scatter(batch: TotalBatch) -> Operation:
    spec = batch.layout.num_spec
    rows = [ScatterAcceptedRow(slot=slot, sampled=_sampled(batch.draw, spec)) for slot in batch.slots]
    return ScatterAccepted(rows=tuple(rows))


def _total_fill(batch: TotalBatch) -> Operation:
    rows = tuple([FillAcceptedRow(slot=slot) for slot in batch.slots])
    return FillAccepted(rows=rows, sampled=_sampled(batch.draw, batch.layout.num_spec))


def _filtered(batch: ReachableBatch) -> Sequence[int]:
    """Slots of a step; pipeline stages filter some out."""
    draw = batch.draw
    filtering = draw.boolean(0.2)
    return [SKIP_ROW if filtering and draw.boolean(0.3) else row.slot for row in batch.step]


def _reachable_scatter(batch: ReachableBatch) -> Operation:
    """A chunk that does not end its prompt samples nothing."""
    rows = [
        ScatterAcceptedRow(slot=slot, sampled=row.accepted if row.samples else 0)
        for slot, row in zip(_filtered(batch), batch.step, strict=True)
    ]
    return ScatterAccepted(rows=tuple(rows))


def _reachable_fill(batch: ReachableBatch) -> Operation:
    rows = tuple([FillAcceptedRow(slot=slot) for slot in _filtered(batch)])
    return FillAccepted(rows=rows, sampled=batch.draw.integer(0, 1))


SCATTER_ACCEPTED = Kind("scatter-accepted", ("V2",), _total_scatter, _reachable_scatter)
FILL_ACCEPTED = Kind("fill-accepted", ("V2",), _total_fill, _reachable_fill)
