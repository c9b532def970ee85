"""A plan says where in the arena each object of a case lies.

    guard | buffer | guard | ... | table | guard | ... | private memory of the target | array | guard | ... | guard

Everything up to the target's private memory depends on the layout alone, so that cases of one layout can share a
target's context; the arrays of the operations follow. Guards stand on both sides of every object.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from harness.case import Array, Case, InvalidCase, Layout, State, state_extent

ALIGNMENT = 256
GUARD = 256
OUTER_GUARD = 8192
"""Bytes of a guard. A copy loop handles up to 8192 bytes a step: the ends of the arena catch one step too many."""

DENSE_LIMIT = 8 << 20
"""Buffers up to this many bytes are covered as a whole, larger ones only around the blocks."""
COVERED_LIMIT = 1 << 30
"""Maximum number of bytes that a case may hold."""
BLOCKS_LIMIT = 1 << 17
"""Maximum number of blocks, counted for each state: each of them is an object that is watched separately."""
ARENA_LIMIT = 1 << 44
"""Maximum number of bytes from the first to the last object: more than a machine's memory, less than its address
space."""


@dataclass(frozen=True)
class StatePlace:
    """One state tensor: `start` is the arena offset of block 0, `extent` the bytes one block spans."""

    group: int
    layer: int
    index: int
    state: State
    start: int
    extent: int

    def block(self, block: int) -> int:
        """Arena offset of a block's first byte."""
        return self.start + block * self.state.block_stride


@dataclass(frozen=True)
class ArraySpan:
    """A one-dimensional integer array: an argument of an operation. `item` is bytes per entry.

    `by` says what an entry belongs to: a request slot or a batch row.
    """

    operation: int
    name: str
    start: int
    item: int
    length: int
    by: Literal["slot", "batch"] = "slot"

    @property
    def size(self) -> int:
        return self.item * self.length


class Allocation(NamedTuple):
    """What a target allocated in its private memory under a name: where, how many bytes, and those of an element."""

    name: str
    start: int
    size: int
    item: int


@dataclass(frozen=True)
class LayoutPlan:
    """Where buffers, states and tables lie; `private` is the span set aside for the target's own memory. What the
    target that was bound last has `allocated` there serves descriptions alone."""

    layout: Layout
    buffers: tuple[int, ...]
    states: tuple[StatePlace, ...]
    tables: tuple[int, ...]
    covered: tuple[tuple[int, int], ...]
    private: tuple[int, int]
    allocated: list[Allocation] = field(default_factory=list, compare=False)

    @property
    def size(self) -> int:
        """Bytes of the arena up to the end of the private span."""
        return sum(self.private)

    @property
    def table_bytes(self) -> int:
        return self.layout.table_rows * self.layout.table_columns * 4

    def table_cell(self, group: int, row: int, column: int) -> int:
        """Arena offset of a cell of a block table."""
        return self.tables[group] + (row * self.layout.table_columns + column) * 4


@dataclass(frozen=True)
class MemoryPlan:
    """A layout plan and the arrays of each operation, by name; `size` is the size of the arena in bytes.

    `contents[operation]` are the numbers that go into the arrays.
    """

    base: LayoutPlan
    arrays: tuple[dict[str, ArraySpan], ...]
    contents: tuple[tuple[Array, ...], ...]
    covered: tuple[tuple[int, int], ...]
    size: int


def plan_memory(case: Case, mapping_bits: int) -> MemoryPlan:
    """Place all objects of a case; `mapping_bits` is 32 or 64, the target's type of a mapping entry.

    Raises InvalidCase if the case would hold more memory than COVERED_LIMIT.
    """
    base = plan_layout(case.layout)
    start = sum(base.private)
    cursor = start + GUARD
    arrays, contents = [], []
    kept: dict[str, ArraySpan] = {}
    for i, operation in enumerate(case.program):
        spans = {}
        given = operation.arrays(case.layout)
        for array in given:
            item = mapping_bits // 8 if array.mapping else 4
            if case.linked and array.kept_as in kept:
                spans[array.name] = kept[array.kept_as]
                continue
            spans[array.name] = ArraySpan(i, array.name, cursor, item, array.length, array.by)
            cursor = _align(cursor + item * array.length) + GUARD
            if case.linked and array.kept_as is not None:
                kept[array.kept_as] = spans[array.name]
        arrays.append(spans)
        contents.append(given)
    size = cursor + OUTER_GUARD
    if size - start > COVERED_LIMIT:
        raise InvalidCase(f"the arguments of the operations hold more than {COVERED_LIMIT} bytes of memory")
    return MemoryPlan(base, tuple(arrays), tuple(contents), (*base.covered, (start, size - start)), size)


@functools.lru_cache(maxsize=64)
def plan_layout(layout: Layout) -> LayoutPlan:
    """Place buffers and tables.

    Raises InvalidCase if they, or the memory set aside for a target, hold more than COVERED_LIMIT bytes, if there are
    more than BLOCKS_LIMIT blocks of states, or if they spread over more than ARENA_LIMIT bytes.
    """
    blocks = layout.num_blocks * layout.num_states
    if blocks > BLOCKS_LIMIT:
        raise InvalidCase(f"{layout.num_states} states of {layout.num_blocks} blocks: more than {BLOCKS_LIMIT} in all")
    cursor = OUTER_GUARD
    buffers = []
    for buffer in layout.buffers:
        buffers.append(cursor + buffer.misalignment)
        cursor = _align(buffers[-1] + buffer.size) + GUARD
    # An access past the last buffer must not reach a table: a kernel that reads nonsense there may never end.
    cursor += OUTER_GUARD
    states = tuple(
        StatePlace(*where, state, buffers[state.buffer] + state.offset, state_extent(state))
        for where, state in layout.states()
    )
    table_bytes = layout.table_rows * layout.table_columns * 4
    tables = []
    for _ in layout.groups:
        tables.append(cursor)
        cursor = _align(cursor + table_bytes) + GUARD
    if cursor > ARENA_LIMIT:
        raise InvalidCase(f"the case spreads over more than {ARENA_LIMIT} bytes of memory")
    covered = _covered(layout, buffers, states, tables[0] if tables else cursor, cursor)
    # Metadata of every state, several arrays of one entry per slot, table addresses, and the fences between them; and
    # all of it again, where a target has a second context over tables in batch order.
    # For every group: the aligned indices of each row, for both contexts, and a table in batch order.
    per_group = 1024 + 2 * 4 * layout.table_rows * (1 + layout.num_spec) + table_bytes
    # For every state of every row: source, destination and size of a copy that the host has worked out.
    per_state = 512 + 20 * layout.table_rows
    private = _align(
        64 * 1024 + per_state * layout.num_states + 256 * layout.table_rows + len(layout.groups) * per_group
    )
    if private > COVERED_LIMIT:
        raise InvalidCase(f"a target would need more than {COVERED_LIMIT} bytes of private memory")
    return LayoutPlan(layout, tuple(buffers), states, tuple(tables), covered, (cursor, private))


def _covered(
    layout: Layout, buffers: Sequence[int], states: Sequence[StatePlace], tables: int, end: int
) -> tuple[tuple[int, int], ...]:
    spans = [(0, OUTER_GUARD), (tables - OUTER_GUARD, end)]
    for i, (start, buffer) in enumerate(zip(buffers, layout.buffers, strict=True)):
        if buffer.size <= DENSE_LIMIT:
            spans.append((start - GUARD, start + buffer.size + GUARD))
            continue
        spans += [(start - GUARD, start), (start + buffer.size, start + buffer.size + GUARD)]
        mine = [place for place in states if place.state.buffer == i]
        if sum(place.extent + 2 * GUARD for place in mine) * layout.num_blocks > COVERED_LIMIT:
            raise InvalidCase(f"the states of buffer {i} hold more than {COVERED_LIMIT} bytes")
        for place in mine:
            for block in range(layout.num_blocks):
                first = place.block(block)
                spans.append((first - GUARD, min(first + place.extent, start + buffer.size) + GUARD))
    spans.sort()
    merged: list[list[int]] = []
    for first, last in spans:
        if merged and first <= merged[-1][1] + ALIGNMENT:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    if sum(last - first for first, last in merged) > COVERED_LIMIT:
        raise InvalidCase(f"the case holds more than {COVERED_LIMIT} bytes of memory")
    return tuple((first, last - first) for first, last in merged)


def _align(offset: int) -> int:
    return (offset + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
