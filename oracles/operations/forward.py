"""The result of a step's layers and of the runner's table edits: computed here, for the target and the oracle."""

from __future__ import annotations

import numpy as np

from harness.case import ConvState, EditTables, Forward, InvalidCase
from harness.memory import Image, StatePlace, payload_bytes
from harness.oracles.before import Before
from harness.oracles.expected import Expected


def expect_forward(operation: Forward, before: Before) -> Expected:
    """Raises InvalidCase if a column is outside the table row, or its block outside the pool."""
    layout = before.layout
    after = before.image.copy()
    defined: list[tuple[int, int]] = []
    for row in operation.rows:
        if row.column + row.draft >= layout.table_columns:
            raise InvalidCase(f"slot {row.slot}: column {row.column + row.draft} is outside the table row")
        for place in before.plan.base.states:
            drafts = 0 if isinstance(place.state, ConvState) else row.draft
            for column in range(row.column, row.column + drafts + 1):
                block = before.cell(place.group, row.slot, column)
                if not 0 <= block < layout.num_blocks:
                    raise InvalidCase(f"slot {row.slot}: column {column} names block {block}, outside the pool")
                defined += _write_block(operation.payload_seed, place, block, after)
    return Expected(after, defined=tuple(defined))


def _write_block(seed: int, place: StatePlace, block: int, after: Image) -> list[tuple[int, int]]:
    """Write new bytes to every element of a block; bytes between DS rows stay. Returns the written spans."""
    state, start = place.state, place.block(block)
    if isinstance(state, ConvState) and state.row_stride is not None:
        runs, run_bytes, stride = state.dim, state.window * state.item_size, state.row_stride
    else:
        runs, run_bytes, stride = 1, place.extent, 0
    block_bytes = payload_bytes(seed, start, (runs - 1) * stride + run_bytes)
    after.rows(start, runs, run_bytes, stride)[:] = Image([(start, block_bytes)]).rows(start, runs, run_bytes, stride)
    return [(start + run * stride, run_bytes) for run in range(runs)]


def expect_edit_tables(operation: EditTables, before: Before) -> Expected:
    """Raises InvalidCase if a cell is outside its table, or a block outside the pool."""
    layout = before.layout
    after = before.image.copy()
    defined = []
    for cell in operation.cells:
        if cell.group >= len(layout.groups) or cell.slot >= layout.table_rows or cell.column >= layout.table_columns:
            raise InvalidCase(f"an edit of group {cell.group}, slot {cell.slot}, column {cell.column}: no such cell")
        if cell.block >= layout.num_blocks:
            raise InvalidCase(f"an edit names block {cell.block}, outside the pool")
        at = before.plan.base.table_cell(cell.group, cell.slot, cell.column)
        after.view(at, 4).view(np.int32)[0] = cell.block
        defined.append((at, 4))
    return Expected(after, defined=tuple(defined))
