"""An edit is one small change of a case that leaves it well-formed. Shrinking passes are made of edits.

Edits know which parts depend on each other (removing a group renumbers the owners of blocks, shifting a row shifts its
table cells), and nothing about failures. An edit that turns out to be impossible raises InvalidCase.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec

from harness.case import (
    SKIP_ROW,
    Buffer,
    Case,
    ConvState,
    EditTables,
    Group,
    InvalidCase,
    Layer,
    Layout,
    Operation,
    PostprocessRow,
    PrecopyRow,
    Row,
    State,
    TableCell,
    state_extent,
)
from harness.generators.reachability import PAGE_ALIGNMENT

Where = tuple[int, int, int]

replace = msgspec.structs.replace


def with_layout(case: Case, **changes: Any) -> Case:
    return replace(case, layout=replace(case.layout, **changes))


def with_contents(case: Case, **changes: Any) -> Case:
    return replace(case, contents=replace(case.contents, **changes))


def with_operation(case: Case, index: int, operation: Operation) -> Case:
    return replace(case, program=(*case.program[:index], operation, *case.program[index + 1 :]))


def with_row(case: Case, index: int, at: int, row: Row) -> Case:
    operation = case.program[index]
    rows = (*operation.rows[:at], row, *operation.rows[at + 1 :])
    return with_operation(case, index, replace(operation, rows=rows))


def with_rows(operation: Operation, rows: tuple[Any, ...]) -> Operation:
    """An operation with other rows; table edits have none."""
    if isinstance(operation, EditTables):
        return operation
    return replace(operation, rows=rows)


def _with_cells(case: Case, change: Callable[[TableCell], TableCell | None]) -> Case:
    """Change the cells of table edits one by one; None drops a cell."""
    program: list[Operation] = []
    for operation in case.program:
        if isinstance(operation, EditTables):
            cells = tuple(cell for cell in map(change, operation.cells) if cell is not None)
            program.append(replace(operation, cells=cells))
        else:
            program.append(operation)
    return replace(case, program=tuple(program))


def keep_rows(case: Case, index: int, kept: Iterable[int]) -> Case:
    """Keep some batch rows of one operation. In V1 a row is its slot, so table rows move along."""
    operation = case.program[index]
    kept = sorted(kept)
    rows: list[Row] = [operation.rows[i] for i in kept]
    if operation.runner == "V2":
        return with_operation(case, index, replace(operation, rows=tuple(rows)))
    if len(case.program) > 1 and kept != list(range(len(kept))):
        raise InvalidCase("the tables of the other operations would move")
    case = with_operation(
        case, index, replace(operation, rows=tuple(replace(row, slot=i) for i, row in enumerate(rows)))
    )
    if len(case.program) > 1:
        return case
    tables = tuple(tuple(table[i] for i in kept if i < len(table)) for table in case.contents.tables)
    return with_contents(case, tables=tables)


def remove_group(case: Case, group: int) -> Case:
    case = _with_cells(
        case, lambda cell: None if cell.group == group else replace(cell, group=cell.group - (cell.group > group))
    )
    owners = tuple(-1 if o == group else o - (o > group) for o in case.contents.owners)
    case_groups = case.layout.groups[:group] + case.layout.groups[group + 1 :]
    tables = case.contents.tables[:group] + case.contents.tables[group + 1 :]
    return replace(
        case,
        layout=replace(case.layout, groups=case_groups),
        contents=replace(case.contents, owners=owners, tables=tables),
    )


def keep_states(case: Case, kept: set[Where]) -> Case:
    """Keep some states; layers that lose all of theirs are removed. Raises InvalidCase if a group would be empty."""
    groups = []
    for g, group in enumerate(case.layout.groups):
        layers = []
        for i, layer in enumerate(group.layers):
            states = tuple(state for s, state in enumerate(layer.states) if (g, i, s) in kept)
            if states:
                layers.append(Layer(states=states, extra=layer.extra))
        if not layers:
            raise InvalidCase(f"group {g} would have no layer")
        groups.append(Group(layers=tuple(layers)))
    return with_layout(case, groups=tuple(groups))


def map_states(case: Case, change: Callable[[Where, State], State], **layout: Any) -> Case:
    """Change states one by one, and other fields of the layout with them."""
    return with_layout(case, groups=map_groups(case.layout, change), **layout)


def repack(case: Case, gap: Callable[[Where, State], int], **layout: Any) -> Case:
    """Give each state its own buffer, from the first byte, with `gap` bytes between blocks.

    Sizes are rounded up to elements, and in the reachable domain to the alignment that every real page has. There the
    states of one layer stay in one page, one after the other.
    """
    reachable = case.domain == "reachable"
    blocks = layout.get("num_blocks", case.layout.num_blocks)
    pages: dict[tuple[int, ...], list[tuple[Where, State]]] = {}
    for where, state in case.layout.states():
        pages.setdefault(where[:2] if reachable else where, []).append((where, state))
    buffers: list[Buffer] = []
    placed: dict[Where, State] = {}
    for page in pages.values():
        offsets, end = [], 0
        for _, state in page:
            offsets.append(_aligned(end))
            end = offsets[-1] + state_extent(state)
        stride = max(end, *(state_extent(state) + gap(where, state) for where, state in page))
        stride += -stride % (PAGE_ALIGNMENT if reachable else page[0][1].item_size)
        for (where, state), offset in zip(page, offsets, strict=True):
            placed[where] = replace(state, buffer=len(buffers), offset=offset, block_stride=stride)
        buffers.append(Buffer(size=blocks * stride))
    groups = _place_extras(map_groups(case.layout, lambda where, _: placed[where]), buffers, blocks)
    return with_layout(case, groups=groups, buffers=tuple(buffers), **layout)


def pack_pages(case: Case, change: Callable[[State], State]) -> Case:
    """Change states; those that share a buffer keep sharing it, and the pages in it are as small as possible.

    In a page each group's states lie one after the other from its first byte, so that groups overlap.
    """
    offsets: dict[Where, int] = {}
    ends: dict[tuple[int, int], int] = {}  # by buffer and group
    strides: dict[int, int] = {}
    for where, old in case.layout.states():
        state = change(old)
        key = (old.buffer, where[0])
        offsets[where] = _aligned(ends.get(key, 0))
        ends[key] = offsets[where] + state_extent(state)
        strides[old.buffer] = max(strides.get(old.buffer, 0), _aligned(ends[key]))
    order = {buffer: number for number, buffer in enumerate(strides)}

    def place(where: Where, state: State) -> State:
        return replace(
            change(state), buffer=order[state.buffer], offset=offsets[where], block_stride=strides[state.buffer]
        )

    blocks = case.layout.num_blocks
    buffers = [Buffer(size=blocks * stride) for stride in strides.values()]
    groups = _place_extras(map_groups(case.layout, place), buffers, blocks)
    return with_layout(case, groups=groups, buffers=tuple(buffers))


def _place_extras(groups: tuple[Group, ...], buffers: list[Buffer], blocks: int) -> tuple[Group, ...]:
    """Give each extra tensor its own buffer, behind those of the states."""

    def place(state: State) -> State:
        stride = max(state.block_stride, state_extent(state))
        buffers.append(Buffer(size=blocks * stride))
        return replace(state, buffer=len(buffers) - 1, offset=0, block_stride=stride)

    return tuple(
        Group(
            layers=tuple(replace(layer, extra=tuple(place(state) for state in layer.extra)) for layer in group.layers)
        )
        for group in groups
    )


def keep_extras(case: Case, kept: Callable[[int], bool]) -> Case:
    """Keep the extra tensors whose number, counted through all layers, is `kept`."""
    number = itertools.count()
    groups = tuple(
        Group(
            layers=tuple(
                replace(layer, extra=tuple(state for state in layer.extra if kept(next(number))))
                for layer in group.layers
            )
        )
        for group in case.layout.groups
    )
    return with_layout(case, groups=groups)


def _aligned(size: int) -> int:
    return size + -size % PAGE_ALIGNMENT


def map_groups(layout: Layout, change: Callable[[Where, State], State]) -> tuple[Group, ...]:
    return tuple(
        Group(
            layers=tuple(
                Layer(states=tuple(change((g, i, s), state) for s, state in enumerate(layer.states)), extra=layer.extra)
                for i, layer in enumerate(group.layers)
            )
        )
        for g, group in enumerate(layout.groups)
    )


def fill_tables(case: Case, columns: int, slot: int) -> Case:
    """Fill one table row in each group with `columns` blocks that no other row has: 1, 2, ... through all groups. The
    rows in front of it get null blocks. Gaps stay."""
    tables = tuple(
        ((0,) * columns,) * slot + (tuple(range(1 + group * columns, 1 + (group + 1) * columns)),)
        for group in range(len(case.layout.groups))
    )
    owners = (-1, *(group for group in range(len(case.layout.groups)) for _ in range(columns)))
    buffers = []
    for number, buffer in enumerate(case.layout.buffers):
        strides = [state.block_stride for _, state in case.layout.states() if state.buffer == number]
        more = max(0, len(owners) - case.layout.num_blocks) * max(strides, default=0)
        buffers.append(replace(buffer, size=buffer.size + more))
    layout = replace(
        case.layout, num_blocks=len(owners), table_rows=slot + 1, table_columns=columns, buffers=tuple(buffers)
    )
    return replace(case, layout=layout, contents=replace(case.contents, tables=tables, owners=owners))


def natural_gap(_: Where, state: State) -> int:
    """The current gap between two blocks of a state."""
    return state.block_stride - state_extent(state)


def change_conv_layout(case: Case, layout: str) -> Case:
    """Turn all conv states into SD, or into DS with tight rows. Blocks keep their strides."""

    def change(_: Where, state: State) -> State:
        if not isinstance(state, ConvState):
            return state
        return replace(state, row_stride=None if layout == "SD" else state.window * state.item_size)

    return map_states(case, change, conv_layout=layout)


def shift_row(case: Case, index: int, at: int, columns: int) -> Case:
    """Move a request `columns` columns to the left: fewer tokens computed, the same blocks.

    Only for a case of one operation, whose tables no other operation reads.
    """
    if len(case.program) > 1:
        raise InvalidCase("the tables of the other operations would move")
    row = case.program[index].rows[at]
    moved: Row
    if not isinstance(row, PostprocessRow | PrecopyRow):
        raise InvalidCase("the row names no column that could be another one")
    if isinstance(row, PostprocessRow):
        tokens = columns * case.layout.block_size
        moved = replace(row, computed=row.computed - tokens, state_column=row.state_column - columns)
        if moved.computed < 0 or moved.state_column < 0:
            raise InvalidCase("the row cannot move that far")
    else:
        moved = replace(
            row, source_column=row.source_column - columns, destination_column=row.destination_column - columns
        )
        if moved.source_column < 0 or moved.destination_column < 0:
            raise InvalidCase("the row cannot move that far")
    tables = tuple(
        tuple(cells[columns:] if slot == row.slot else cells for slot, cells in enumerate(table))
        for table in case.contents.tables
    )
    return with_contents(with_row(case, index, at, moved), tables=tables)


def remove_columns(case: Case, index: int, at: int, columns: Collection[int]) -> Case:
    """Remove columns from a precopy row's table row; the columns behind them move up.

    Only for a case of one operation, whose tables no other operation reads.
    """
    row = case.program[index].rows[at]
    if len(case.program) > 1 or not isinstance(row, PrecopyRow):
        raise InvalidCase("the columns mean something to another operation")

    def moved(column: int) -> int:
        return column - sum(removed < column for removed in columns)

    tables = tuple(
        tuple(
            tuple(cell for c, cell in enumerate(cells) if c not in columns) if slot == row.slot else cells
            for slot, cells in enumerate(table)
        )
        for table in case.contents.tables
    )
    closer = replace(row, source_column=moved(row.source_column), destination_column=moved(row.destination_column))
    return with_contents(with_row(case, index, at, closer), tables=tables)


def used_columns(case: Case) -> dict[int, int]:
    """For each slot in some batch, one past the last table column that it can read or write."""
    last: dict[int, int] = {}
    for operation in case.program:
        for row in operation.rows:
            if row.slot == SKIP_ROW:
                continue
            last[row.slot] = max(last.get(row.slot, 0), row.table_reach(case.layout))
    return last


def renumber_slots(case: Case, first: int = 0) -> Case:
    """Number slots from `first` on, in the order in which the program first names them. The table rows of all other
    slots are dropped; those in front hold null blocks."""
    order: dict[int, int] = {}
    for operation in case.program:
        for row in operation.rows:
            if row.slot != SKIP_ROW:
                order.setdefault(row.slot, first + len(order))

    def renumbered(operation: Operation) -> Operation:
        rows = tuple(row if row.slot == SKIP_ROW else replace(row, slot=order[row.slot]) for row in operation.rows)
        return with_rows(operation, rows)

    case = _with_cells(case, lambda cell: replace(cell, slot=order[cell.slot]) if cell.slot in order else None)
    blank = (blank_row(case),) * first
    tables = tuple(
        blank + tuple(table[slot] if slot < len(table) else () for slot in order) for table in case.contents.tables
    )
    rows = max(first + len(order), 1, *(len(operation.rows) for operation in case.program))
    return replace(
        case,
        program=tuple(renumbered(operation) for operation in case.program),
        contents=replace(case.contents, tables=tables),
        layout=replace(case.layout, table_rows=rows),
    )


def blank_row(case: Case) -> tuple[int, ...]:
    """A row of null blocks as long as the longest given row: numbers of requests that do not move can name columns far
    outside."""
    return (0,) * max((len(cells) for table in case.contents.tables for cells in table), default=0)


def renumber_blocks(case: Case) -> Case:
    """Number the blocks that tables name 1, 2, ... in table order, and drop all others from the pool."""
    order: dict[int, int] = {0: 0}
    for table in case.contents.tables:
        for cells in table:
            for block in cells:
                order.setdefault(block, len(order))
    for operation in case.program:
        for cell in operation.cells if isinstance(operation, EditTables) else ():
            order.setdefault(cell.block, len(order))
    case = _with_cells(case, lambda cell: replace(cell, block=order[cell.block]))
    count = max(len(order), 2)
    tables = tuple(tuple(tuple(order[b] for b in cells) for cells in table) for table in case.contents.tables)
    owners = [-1] * count
    for old, new in order.items():
        owners[new] = case.contents.owners[old]
    return replace(
        case,
        contents=replace(case.contents, tables=tables, owners=tuple(owners)),
        layout=replace(case.layout, num_blocks=count),
    )
