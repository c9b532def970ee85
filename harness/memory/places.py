"""A place says what an arena offset is in terms of the domain: it maps a byte back to a block, a guard, an argument."""

from __future__ import annotations

from dataclasses import dataclass

from harness.case import Case, ConvState
from harness.memory.plan import GUARD, MemoryPlan, StatePlace

NULL_BLOCK = 0


@dataclass(frozen=True)
class Place:
    """`kind` is the kind of object (conv, temporal, table, padding, guard, private, or an argument's name);
    `name` says which one and which byte of it, `start` is where the named thing begins in the arena."""

    kind: str
    name: str
    start: int


def describe(case: Case, plan: MemoryPlan, offset: int) -> Place:
    """What the byte at `offset` is. Total: every offset of the arena has a place."""
    return (
        _in_array(plan, offset)
        or _in_table(case, plan, offset)
        or _in_state(case, plan, offset)
        or _between(case, plan, offset)
    )


def describe_run(case: Case, plan: MemoryPlan, offset: int, size: int) -> Place:
    """What `size` bytes from `offset` on are: like `describe`, with all elements of a block that they reach
    (`elements 8192 to 16383`)."""
    single = describe(case, plan, offset)
    found = _state_at(case, plan, offset)
    if single.kind not in ("conv", "temporal") or found is None:
        return single
    place, block, within = found
    last = min(within + size - 1, place.extent - 1)
    name = f"{describe_block(case, place, block)}, {_elements_name(place, within, last)}"
    return Place(single.kind, name, single.start)


def state_block(case: Case, plan: MemoryPlan, offset: int) -> tuple[StatePlace, int] | None:
    """The state and block that a byte belongs to; where groups share memory, those of the block's owner."""
    found = _state_at(case, plan, offset)
    return None if found is None else found[:2]


def describe_block(case: Case, place: StatePlace, block: int) -> str:
    """Name one block of one state, with the table cells that lead to it."""
    kind = "conv" if isinstance(place.state, ConvState) else "temporal"
    return (
        f"group {place.group}, layer {place.layer}, {kind} state {place.index}, {_block_name(case, place.group, block)}"
    )


def _in_array(plan: MemoryPlan, offset: int) -> Place | None:
    for spans in plan.arrays:
        for span in spans.values():
            if span.start <= offset < span.start + span.size:
                entry = (offset - span.start) // span.item
                what = "batch row" if span.by == "batch" else "slot"
                name = f"operation {span.operation}, {span.name}[{entry}] ({what} {entry})"
                return Place(span.name, name, span.start)
    return None


def _in_table(case: Case, plan: MemoryPlan, offset: int) -> Place | None:
    for group, start in enumerate(plan.base.tables):
        if start <= offset < start + plan.base.table_bytes:
            row, column = divmod((offset - start) // 4, case.layout.table_columns)
            return Place("table", f"block table of group {group}, slot {row}, column {column}", start)
    return None


def _in_state(case: Case, plan: MemoryPlan, offset: int) -> Place | None:
    """The block that holds the byte; where groups share memory, the one whose group owns the block."""
    found = _state_at(case, plan, offset)
    if found is None:
        return None
    place, block, within = found
    kind = "conv" if isinstance(place.state, ConvState) else "temporal"
    return Place(kind, f"{describe_block(case, place, block)}, {_element_name(place, within)}", place.block(block))


def _state_at(case: Case, plan: MemoryPlan, offset: int) -> tuple[StatePlace, int, int] | None:
    """State, block, and byte of the block; None for a byte of no state."""
    found: tuple[StatePlace, int, int] | None = None
    for place in plan.base.states:
        block, within = divmod(offset - place.start, place.state.block_stride)
        if not 0 <= block < case.layout.num_blocks or within >= place.extent:
            continue
        if _element_name(place, within) is None:
            continue
        if case.contents.owners[block] == place.group:
            return place, block, within
        found = found or (place, block, within)
    return found


def _element_name(place: StatePlace, within: int) -> str | None:
    """Name the element at byte `within` of a block; None for the gap between two DS rows."""
    state = place.state
    if not isinstance(state, ConvState):
        element, byte = divmod(within, state.item_size)
        return f"element {element}, byte {byte}"
    if state.row_stride is None:
        token, rest = divmod(within, state.dim * state.item_size)
        row, byte = divmod(rest, state.item_size)
    else:
        row, rest = divmod(within, state.row_stride)
        token, byte = divmod(rest, state.item_size)
        if token >= state.window:
            return None
    return f"token {token}, row {row}, byte {byte}"


def _elements_name(place: StatePlace, first: int, last: int) -> str:
    """Name the elements of a block from byte `first` to byte `last`."""
    state = place.state
    if not isinstance(state, ConvState):
        one, other = first // state.item_size, last // state.item_size
        return _element_name(place, first) or "" if one == other else f"elements {one} to {other}"
    (token, row), (last_token, last_row) = _token_and_row(state, first), _token_and_row(state, last)
    if (token, row) == (last_token, last_row):
        return _element_name(place, first) or ""
    if token == last_token:
        return f"token {token}, rows {row} to {last_row}"
    if row == last_row and state.row_stride is not None:
        return f"tokens {token} to {last_token}, row {row}"
    if state.row_stride is None and row == 0 and last_row == state.dim - 1:
        return f"tokens {token} to {last_token}, all rows"
    return f"token {token}, row {row} to token {last_token}, row {last_row}"


def _token_and_row(state: ConvState, within: int) -> tuple[int, int]:
    if state.row_stride is None:
        token, rest = divmod(within, state.dim * state.item_size)
        return token, rest // state.item_size
    row, rest = divmod(within, state.row_stride)
    return rest // state.item_size, row


def _block_name(case: Case, group: int, block: int) -> str:
    if block == NULL_BLOCK:
        return "null block 0"
    cells = [
        f"column {c} of slot {r}"
        for r, row in enumerate(case.contents.tables[group])
        for c, cell in enumerate(row)
        if cell == block
    ]
    owner = case.contents.owners[block]
    if not cells:
        whose = f"of group {owner}" if owner not in (-1, group) else "in no table of this group"
        return f"block {block} ({whose})"
    more = f" and {len(cells) - 2} more" if len(cells) > 2 else ""
    return f"block {block} ({', '.join(cells[:2])}{more})"


def _between(case: Case, plan: MemoryPlan, offset: int) -> Place:
    first, size = plan.base.private
    if first <= offset < first + size:
        return Place("private", f"the target's private memory, {_allocation(plan, offset)}", first)
    for i, (start, buffer) in enumerate(zip(plan.base.buffers, case.layout.buffers, strict=True)):
        if start <= offset < start + buffer.size:
            return _padding(case, plan, i, offset)
    return _guard(case, plan, offset)


def _padding(case: Case, plan: MemoryPlan, buffer: int, offset: int) -> Place:
    """A byte of a buffer that belongs to no state: named after the nearer of the blocks around it, preferably an
    owned one."""
    nearest: tuple[tuple[int, bool, bool], Place] | None = None
    for place in plan.base.states:
        if place.state.buffer != buffer:
            continue
        number = min((offset - place.start) // place.state.block_stride, case.layout.num_blocks - 1)
        for block in (number, number + 1):
            if not 0 <= block < case.layout.num_blocks:
                continue
            start, end = place.block(block), place.block(block) + place.extent
            if start <= offset < end:
                distance, where = 0, "a gap between rows of"
            elif offset < start:
                distance, where = start - offset, f"padding, {_bytes(start - offset)} before"
            else:
                distance, where = offset - end + 1, f"padding, {_bytes(offset - end)} after"
            rank = (distance, case.contents.owners[block] != place.group, offset < start)
            if nearest is None or rank < nearest[0]:
                name = f"{where} {describe_block(case, place, block)}"
                nearest = rank, Place("padding", name, start if offset < start else end)
    if nearest is None:  # no state uses the buffer
        start = plan.base.buffers[buffer]
        return Place("padding", f"buffer {buffer}, byte {offset - start}", start)
    return nearest[1]


def _bytes(number: int) -> str:
    return f"{number} byte{'s' * (number != 1)}"


def _allocation(plan: MemoryPlan, offset: int) -> str:
    """A byte of the target's private memory, by what the target allocated there, as far as that is known."""
    for one in plan.base.allocated:
        within = offset - one.start
        if 0 <= within < one.size:
            part = f" (byte {within % one.item})" if within % one.item else ""
            return f"{one.name}, element {within // one.item}{part}"
    first, _ = plan.base.private
    return f"byte {offset - first}"


def _guard(case: Case, plan: MemoryPlan, offset: int) -> Place:
    """A byte between objects: named after the nearer of its two neighbours."""
    objects = [
        (start, buffer.size, f"buffer {i}")
        for i, (start, buffer) in enumerate(zip(plan.base.buffers, case.layout.buffers, strict=True))
    ]
    objects += [
        (start, plan.base.table_bytes, f"the block table of group {g}") for g, start in enumerate(plan.base.tables)
    ]
    objects += [
        (span.start, span.size, f"{span.name} of operation {span.operation}")
        for spans in plan.arrays
        for span in spans.values()
    ]
    objects.append((*plan.base.private, "the target's private memory"))

    def distance(item: tuple[int, int, str]) -> int:
        start, size, _ = item
        return start - offset if offset < start else offset - (start + size) + 1

    start, size, name = min(objects, key=distance)
    if offset < start:
        side = f"{_bytes(start - offset)} before {name}"
    else:
        side = f"{_bytes(offset - start - size)} after {name}"
    return Place("guard", f"no object, {side}", start - GUARD if offset < start else start + size)
