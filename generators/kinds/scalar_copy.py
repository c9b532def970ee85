"""How copies by the scalar path are drawn: only moves that are one contiguous run of bytes for every state."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case import FRESH, Case, ConvState, Layout, PrecopyRow, ScalarCopy, landing
from harness.generators.kinds.kind import DrawnKind, ReachableBatch, TotalBatch
from harness.generators.kinds.migration import broken_precopy, postprocess_moves, precopied_column, precopy_moves
from harness.generators.kinds.rules import each_running_row, missing_blocks
from harness.generators.simulator import Scheduled


def is_contiguous(layout: Layout) -> bool:
    """Whether every block of every conv state is one contiguous run of bytes."""
    return all(
        state.row_stride in (None, state.window * state.item_size)
        for _, state in layout.states()
        if isinstance(state, ConvState)
    )


def can_shift(layout: Layout) -> bool:
    """Whether a part of a window is one contiguous run of bytes too."""
    return layout.conv_layout == "SD" or not any(isinstance(state, ConvState) for _, state in layout.states())


def _total(batch: TotalBatch) -> ScalarCopy:
    if not is_contiguous(batch.layout):
        return ScalarCopy(rows=tuple([_fresh(slot, 0) for slot in batch.slots]))
    biased = can_shift(batch.layout)
    if biased and batch.draw.boolean(0.3):
        return ScalarCopy(rows=tuple([batch.rows.listed(slot) for slot in batch.slots]), within_blocks=True)
    return ScalarCopy(rows=tuple([batch.rows.precopy(slot, biased=biased) for slot in batch.slots]))


def _fresh(slot: int, column: int) -> PrecopyRow:
    return PrecopyRow(slot=slot, source_column=FRESH, destination_column=column, bias=0)


def _reachable(batch: ReachableBatch) -> ScalarCopy:
    """The moves before a step, or after it: a runner without fused kernels lists copies for both. Windows in DS layout
    can only be listed whole."""
    biased = can_shift(batch.layout)
    if biased and batch.draw.boolean():
        rows = [_after(row, batch.layout.block_size) for row in batch.step]
        return ScalarCopy(rows=tuple(rows), within_blocks=True)
    return ScalarCopy(rows=tuple([_before(row, biased) for row in batch.step]))


def _before(row: Scheduled, biased: bool) -> PrecopyRow:
    if not precopy_moves(row, 0, False) or (row.bias and not biased):
        return _fresh(row.slot, row.column)
    return PrecopyRow(slot=row.slot, source_column=row.previous_column, destination_column=row.column, bias=row.bias)


def _after(row: Scheduled, block_size: int) -> PrecopyRow:
    landed = landing(row.running, row.accepted, block_size)
    if landed is None:
        return _fresh(row.slot, row.column)
    return PrecopyRow(slot=row.slot, source_column=row.column, destination_column=landed.column, bias=landed.bias)


def _moves(row: Scheduled, block_size: int, decoding: bool) -> bool:
    return precopy_moves(row, block_size, decoding) or postprocess_moves(row, block_size, decoding)


def _broken(case: Case, operation: ScalarCopy) -> Iterator[str]:
    return (_broken_after if operation.within_blocks else _broken_before)(case, operation)


def _broken_landing(case: Case, row: PrecopyRow) -> str | None:
    """The rule that a move after a step breaks."""
    source, destination = row.source_column, row.destination_column
    if source == FRESH or (source == destination and not row.bias):
        return None
    if row.bias > case.layout.num_spec:
        return f"bias {row.bias} but the model makes {case.layout.num_spec} drafts"
    if source - destination not in (0, 1):
        return f"the kept state lands in column {destination}, and the step ran in column {source}"
    return missing_blocks(case, row.slot, [destination, *range(source, source + row.bias + 1)])


def _step_column(row: PrecopyRow, block_size: int) -> int:
    """The column that the step ran in."""
    return max(row.source_column, row.destination_column)


_broken_before = each_running_row(broken_precopy, precopied_column)
_broken_after = each_running_row(_broken_landing, _step_column)

SCALAR_COPY = DrawnKind(
    operation=ScalarCopy,
    runners=("V1",),
    total=_total,
    reachable=_reachable,
    moves=_moves,
    broken=_broken,
)
