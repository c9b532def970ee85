"""How copies by the scalar path are drawn: only moves that are one contiguous run of bytes for every state."""

from __future__ import annotations

from harness.case import FRESH, Case, ConvState, Layout, PrecopyRow, ScalarCopy
from harness.generators.kinds.kind import DrawnKind, ReachableBatch, TotalBatch
from harness.generators.kinds.migration import broken_precopy, precopied_column
from harness.generators.kinds.rules import each_running_row
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
    return ScalarCopy(rows=tuple([batch.rows.precopy(slot, biased=biased) for slot in batch.slots]))


def _fresh(slot: int, column: int) -> PrecopyRow:
    return PrecopyRow(slot=slot, source_column=FRESH, destination_column=column, bias=0)


def _reachable(batch: ReachableBatch) -> ScalarCopy:
    """Production uses this path where nothing is speculative: moves with a bias go through the kernel."""
    rows = [
        PrecopyRow(slot=row.slot, source_column=row.previous_column, destination_column=row.column, bias=0)
        if _moves(row, 0, False)
        else _fresh(row.slot, row.column)
        for row in batch.step
    ]
    return ScalarCopy(rows=tuple(rows))


def _moves(row: Scheduled, block_size: int, decoding: bool) -> bool:
    return row.precopies and row.bias == 0


def _broken(case: Case, row: PrecopyRow) -> str | None:
    return broken_precopy(case, row) or ("production uses this path only without a bias" if row.bias else None)


SCALAR_COPY = DrawnKind(
    operation=ScalarCopy,
    runners=("V1",),
    total=_total,
    reachable=_reachable,
    moves=_moves,
    broken=each_running_row(_broken, precopied_column),
)
