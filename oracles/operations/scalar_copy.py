"""The result of the scalar path: the same as that of precopy (docs/domain.md, sections 4 and 7)."""

from __future__ import annotations

from harness.case import ConvState, InvalidCase, Layout, ScalarCopy
from harness.oracles.before import Before
from harness.oracles.copies import StateCopy
from harness.oracles.decisions import Move, decide_scalar_copy
from harness.oracles.expected import Expected, move_states


def expect_scalar_copy(operation: ScalarCopy, before: Before) -> Expected:
    """Raises InvalidCase where nothing is promised for one list of contiguous copies."""
    decisions = [decide_scalar_copy(row, within_blocks=operation.within_blocks) for row in operation.rows]
    moves = [(i, d.slot, d.move) for i, d in enumerate(decisions) if d.move is not None]
    return move_by_list(before, moves)


def move_by_list(before: Before, moves: list[tuple[int, int, Move]]) -> Expected:
    """The moves as a batch of contiguous copies; a copy of zero bytes is launched as well."""
    for _, slot, move in moves:
        _refuse_strided(before.layout, slot, move)
    after, copies = move_states(before, moves)
    for copy in copies:
        _refuse_right_overlap(copy)
    return Expected(after, copies, launches=bool(moves))


def _refuse_strided(layout: Layout, slot: int, move: Move) -> None:
    """Raise InvalidCase if a copy of a conv state is not one contiguous run: DS rows shifted or with gaps."""
    for _, state in layout.states():
        if not isinstance(state, ConvState) or state.row_stride is None:
            continue
        if move.bias or state.row_stride != state.window * state.item_size:
            raise InvalidCase(f"slot {slot}: the scalar path copies whole DS states without gaps between rows")


def _refuse_right_overlap(copy: StateCopy) -> None:
    if copy.source < copy.destination < copy.source + copy.run_bytes:
        raise InvalidCase(f"slot {copy.slot}: a copy overlaps its source from above")
