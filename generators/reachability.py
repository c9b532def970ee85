"""Reachability: whether a scheduler could have asked for an operation, by the rules that every step obeys.

The simulator produces reachable cases by construction. This module checks that, and keeps shrinking inside the
domain. It states the rules of docs/domain.md, section 6, for layouts; each kind of operation has its own rules. A
layout may be smaller than that of any model, but a model could have it: shrinking does not introduce what only the
total domain has (`harness.regimes`).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from harness.case import Case, ConvState, EditTables, InvalidCase, Layout, State, operation_name
from harness.generators.kinds.registry import kind_of
from harness.generators.kinds.rules import NULL_BLOCK

PAGE_ALIGNMENT = 8
"""Bytes: addresses, strides and sizes of real states are multiples of this (in fact of more: pages are padded)."""
MODEL_ITEM_SIZES = (2, 4)
"""Bytes of an element: models keep states as float32, float16 or bfloat16."""
LEAST_BLOCK_SIZE = 2
"""Tokens: Mamba blocks are as long as attention blocks, and no attention kernel has blocks of one token."""


def require_reachable(case: Case) -> None:
    """Raise InvalidCase, naming the broken rule, if no scheduler can have produced this case."""
    for text in _broken(case):
        raise InvalidCase(f"not reachable: {text}")


def _broken(case: Case) -> Iterator[str]:
    yield from _broken_layout(case.layout)
    for operation in case.program:
        if isinstance(operation, EditTables):
            case = _edited(case, operation)
            continue
        for text in kind_of(operation).broken(case, operation):
            yield f"{operation_name(operation)} {text}"


def _broken_layout(layout: Layout) -> Iterator[str]:
    if layout.block_size < max(1 + layout.num_spec, LEAST_BLOCK_SIZE):
        yield f"block size {layout.block_size} is below {LEAST_BLOCK_SIZE}, or 1 + num_spec"
    for (number, place, _), state in layout.states():
        address = layout.buffers[state.buffer].misalignment + state.offset
        text = _broken_state(layout, state)
        if address % PAGE_ALIGNMENT or state.block_stride % PAGE_ALIGNMENT:
            text = f"is not aligned to {PAGE_ALIGNMENT} bytes"
        if text:
            yield f"a state of group {number}, layer {place} {text}"
    for g, group in enumerate(layout.groups):
        for i, layer in enumerate(group.layers):
            if len({state.buffer for state in layer.states}) > 1:
                yield f"the states of group {g}, layer {i} are not in one page"
            if sum(isinstance(state, ConvState) for state in layer.states) > 1:
                yield f"group {g}, layer {i} has two windows"


def _broken_state(layout: Layout, state: State) -> str | None:
    """A property of the state's size that no model has. A window has a row per draft besides the convolution's rows."""
    if state.item_size not in MODEL_ITEM_SIZES:
        return f"has elements of {state.item_size} bytes"
    if not isinstance(state, ConvState):
        return f"has {state.natural_bytes} bytes" if state.natural_bytes % PAGE_ALIGNMENT else None
    if state.dim * state.item_size % PAGE_ALIGNMENT:
        return f"has {state.dim * state.item_size} bytes for a token"
    if state.window <= layout.num_spec:
        return f"has a window of {state.window} but the model makes {layout.num_spec} drafts"
    if state.row_stride not in (None, state.window * state.item_size):
        return "has gaps between its rows"
    return None


def _edited(case: Case, edit: EditTables) -> Case:
    """The case with edited tables. A block that is given to a column then belongs to the group of the table."""
    tables = [[list(cells) for cells in table] for table in case.contents.tables]
    owners = list(case.contents.owners)
    for cell in edit.cells:
        if cell.group >= len(tables) or cell.block >= len(owners):
            raise InvalidCase("an edit of a table or a block that does not exist")
        table = tables[cell.group]
        table.extend([] for _ in range(cell.slot + 1 - len(table)))
        row = table[cell.slot]
        row.extend([NULL_BLOCK] * (cell.column + 1 - len(row)))
        row[cell.column] = cell.block
        if cell.block:
            owners[cell.block] = cell.group
    contents = msgspec.structs.replace(
        case.contents,
        tables=tuple(tuple(tuple(cells) for cells in table) for table in tables),
        owners=tuple(owners),
    )
    return msgspec.structs.replace(case, contents=contents, program=case.program[:1])
