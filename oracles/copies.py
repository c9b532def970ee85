"""A copy moves one state of one request from one block to another: the byte runs that must arrive.

Rules of docs/domain.md, section 5, for one state at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.case import ConvState, InvalidCase, Layout, TemporalState
from harness.memory import StatePlace
from harness.oracles.decisions import Move


@dataclass(frozen=True)
class StateCopy:
    """Move runs of `run_bytes` bytes: run i from `source + i * run_stride` to `destination + i * run_stride`.

    `source` and `destination` are arena offsets.
    """

    row: int
    slot: int
    move: Move
    place: StatePlace
    source_block: int
    destination_block: int
    source: int
    destination: int
    run_bytes: int
    runs: int = 1
    run_stride: int = 0

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many runs, the bytes of each, and how far apart they begin."""
        return self.runs, self.run_bytes, self.run_stride

    @property
    def span(self) -> int:
        """Bytes from the first to one past the last byte touched, on either side."""
        return (self.runs - 1) * self.run_stride + self.run_bytes


def copy_of_state(
    layout: Layout, place: StatePlace, row: int, slot: int, move: Move, cell: Callable[[int, int, int], int]
) -> StateCopy | None:
    """The copy that moves one state; None if it moves nothing (a bias of a whole window or more).

    `cell(group, slot, column)` reads a block table. Raises InvalidCase where nothing is promised: for a column outside
    the table row, or a block id outside the pool.
    """
    state = place.state
    if isinstance(state, TemporalState):
        source_column = move.source + move.bias
        skip = 0
    else:
        source_column = move.source
        skip = move.bias
    source_block = _block(layout, place.group, slot, source_column, cell)
    destination_block = _block(layout, place.group, slot, move.destination, cell)
    source = place.block(source_block)
    destination = place.block(destination_block)
    common = (row, slot, move, place, source_block, destination_block)
    if isinstance(state, TemporalState):
        return StateCopy(*common, source, destination, state.natural_bytes)
    tokens = state.window - skip
    if tokens <= 0:
        return None
    return _conv_copy(state, common, source, destination, skip, tokens)


def _conv_copy(
    state: ConvState,
    common: tuple[int, int, Move, StatePlace, int, int],
    source: int,
    destination: int,
    skip: int,
    tokens: int,
) -> StateCopy:
    if state.row_stride is None:  # SD: tokens are rows, one contiguous run
        token_bytes = state.dim * state.item_size
        return StateCopy(*common, source + skip * token_bytes, destination, tokens * token_bytes)
    return StateCopy(  # DS: each of dim rows has its own run
        *common,
        source + skip * state.item_size,
        destination,
        tokens * state.item_size,
        runs=state.dim,
        run_stride=state.row_stride,
    )


def _block(layout: Layout, group: int, slot: int, column: int, cell: Callable[[int, int, int], int]) -> int:
    if not 0 <= column < layout.table_columns:
        raise InvalidCase(f"slot {slot}: column {column} is outside the table row of {layout.table_columns} cells")
    block = cell(group, slot, column)
    if not 0 <= block < layout.num_blocks:
        raise InvalidCase(f"slot {slot}: column {column} of group {group} names block {block}, outside the pool")
    return block
