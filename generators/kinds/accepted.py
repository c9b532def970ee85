"""How scatters and fills of accepted counts are drawn."""

from __future__ import annotations

from collections.abc import Sequence

from harness.case import SKIP_ROW, Case, FillAccepted, FillAcceptedRow, ScatterAccepted, ScatterAcceptedRow
from harness.generators.draw import Draw
from harness.generators.kinds.kind import DrawnKind, ReachableBatch, TotalBatch
from harness.generators.kinds.rules import each_row, no_rule

LARGEST = 2**30


def _sampled(draw: Draw, num_spec: int) -> int:
    return LARGEST if draw.boolean(0.02) else draw.boundary(0, num_spec + 2, (0, 1))


def _total_scatter(batch: TotalBatch) -> ScatterAccepted:
    spec = batch.layout.num_spec
    rows = [ScatterAcceptedRow(slot=slot, sampled=_sampled(batch.draw, spec)) for slot in batch.slots]
    return ScatterAccepted(rows=tuple(rows))


def _total_fill(batch: TotalBatch) -> FillAccepted:
    rows = tuple([FillAcceptedRow(slot=slot) for slot in batch.slots])
    return FillAccepted(rows=rows, sampled=_sampled(batch.draw, batch.layout.num_spec))


def _filtered(batch: ReachableBatch) -> Sequence[int]:
    """Slots of a step; pipeline stages filter some out."""
    draw = batch.draw
    filtering = draw.boolean(0.2)
    return [SKIP_ROW if filtering and draw.boolean(0.3) else row.slot for row in batch.step]


def _reachable_scatter(batch: ReachableBatch) -> ScatterAccepted:
    """A prefill chunk that does not end its prompt samples nothing."""
    rows = [
        ScatterAcceptedRow(slot=slot, sampled=row.accepted if row.samples else 0)
        for slot, row in zip(_filtered(batch), batch.step, strict=True)
    ]
    return ScatterAccepted(rows=tuple(rows))


def _reachable_fill(batch: ReachableBatch) -> FillAccepted:
    rows = tuple([FillAcceptedRow(slot=slot) for slot in _filtered(batch)])
    return FillAccepted(rows=rows, sampled=batch.draw.integer(0, 1))


def _broken_scatter(case: Case, row: ScatterAcceptedRow) -> str | None:
    spec = case.layout.num_spec
    return f"{row.sampled} sampled tokens but the model makes {spec} drafts" if row.sampled > spec + 1 else None


SCATTER_ACCEPTED = DrawnKind(
    operation=ScatterAccepted,
    runners=("V2",),
    total=_total_scatter,
    reachable=_reachable_scatter,
    broken=each_row(_broken_scatter),
)
FILL_ACCEPTED = DrawnKind(
    operation=FillAccepted, runners=("V2",), total=_total_fill, reachable=_reachable_fill, broken=no_rule
)
