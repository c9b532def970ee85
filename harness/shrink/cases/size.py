"""The size of a kernel case is what the shrinker reduces. Of two cases, the one with the lower key is simpler.

What a reader has to understand first counts first: operations, requests, groups and states, then the kinds of states,
then numbers, tables, and how memory is laid out. So fewer requests outweigh a wider table.
"""

from __future__ import annotations

from math import prod
from typing import Any

import msgspec

from harness.case import (
    SKIP_ROW,
    Case,
    ConvState,
    Execution,
    Operation,
    PrecopyRow,
    Row,
    State,
    encode_case,
    state_extent,
)

Size = tuple[Any, ...]
"""Keys of one subject compare with each other, part by part."""


def size(case: Case) -> Size:
    """The key of a case. Total: cases that differ have different keys."""
    layout, program = case.layout, case.program
    rows = [row for operation in program for row in operation.rows]
    states = [state for _, state in layout.states()]
    tables = case.contents.tables
    return (
        len(program),
        len(rows),
        len(layout.groups),
        len(states) + sum(1 for _ in layout.extras()),
        case.linked,
        [_operation(operation) for operation in program],
        layout.conv_layout == "DS" and any(isinstance(state, ConvState) for state in states),
        sorted(_kind(state) for state in states),
        layout.block_size,
        sorted(map(_row, rows)),
        layout.num_spec,
        layout.conv_layout == "DS",
        sum(len(cells) for table in tables for cells in table),
        layout.table_rows,
        layout.table_columns,
        [row.slot for row in rows],
        sum(sum(map(bool, cells)) for table in tables for cells in table),
        _blocks(case),
        sorted(_gap(state) for state in states),
        sorted(_numbers(state) for state in states),
        sum(buffer.size for buffer in layout.buffers),
        case.contents.payload_seed,
        case.contents.poison,
        case.execution != Execution(),
        case.execution.seed,
        len(encode_case(case)),
        encode_case(case),
    )


def _operation(operation: Operation) -> tuple[int, ...]:
    """The numbers of an operation apart from its rows, the V2 form after the V1 form."""
    numbers = [operation.runner == "V2", sum(row.slot == SKIP_ROW for row in operation.rows)]
    for name, value in sorted(msgspec.structs.asdict(operation).items()):
        if name not in ("rows", "runner"):
            numbers.append(_weight(value))
    return tuple(map(int, numbers))


def _weight(value: object) -> int:
    if isinstance(value, tuple | list):
        return len(value)
    if isinstance(value, str):
        return int(value == "scalar")
    return abs(value) if isinstance(value, int) else int(value is not None)


def _row(row: Row) -> tuple[int, ...]:
    """The numbers of a row. Those that depend on others come first: a smaller bias may take more computed tokens."""
    numbers = {name: _weight(value) for name, value in msgspec.structs.asdict(row).items() if name != "slot"}
    if isinstance(row, PrecopyRow):
        return numbers["bias"], numbers["source_column"] + numbers["destination_column"], numbers["source_column"]
    first = ("accepted", "draft", "scheduled", "state_column")
    return (
        *(numbers.pop(name, 0) for name in first),
        *numbers.values(),
    )


def _kind(state: State) -> tuple[int, ...]:
    """Simplest first: one number, a window that shifts, one that warps share, then any other."""
    if isinstance(state, ConvState):
        return (1 if state.window <= 3 else 2, state.item_size, state.window, state.dim)
    return (0, state.item_size, len(state.shape), prod(state.shape))


def _numbers(state: State) -> tuple[int, ...]:
    return (state.natural_bytes,)


def _gap(state: State) -> tuple[int, int]:
    """The key of the gap between two blocks: none, an element, a stride of a round number of gigabytes, any other."""
    extent = state_extent(state)
    gap = state.block_stride - extent
    rank = 0 if gap == 0 else 1 if gap == state.item_size else 2 if state.block_stride % (1 << 29) == 0 else 3
    return rank, gap


def _blocks(case: Case) -> tuple[int, int]:
    """The number of blocks of the pool, and the highest block that a table names."""
    named = (cell for table in case.contents.tables for cells in table for cell in cells)
    return case.layout.num_blocks, max(named, default=0)
