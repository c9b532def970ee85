"""Contents turn a case into bytes: the image that memory holds before the program runs.

State bytes come from the payload seed, so that no two blocks are the same; everything that was never written is poison.
Entries that a launch must not read (table cells past the given ones, slots that are not scheduled) hold stale but
plausible numbers: reading them gives wrong bytes instead of a dead GPU context.
"""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from harness.case import SKIP_ROW, Case
from harness.memory.image import Image
from harness.memory.noise import payload_bytes, poison_bytes, stale_numbers
from harness.memory.plan import LayoutPlan, MemoryPlan


def initial_image(case: Case, plan: MemoryPlan) -> Image:
    """The image of a case before its first operation. The same case and plan give the same bytes anywhere."""
    contents = case.contents
    background = _background(plan.base, contents.poison)
    data = np.empty(sum(size for _, size in plan.covered), dtype=np.uint8)
    place = 0
    for (start, size), mask in zip(plan.base.covered, state_masks(plan.base), strict=True):
        part, poison = data[place : place + size], background[place : place + size]
        if mask is None:
            part[:] = poison
        else:
            np.bitwise_and(payload_bytes(contents.payload_seed, start, size), mask, out=part)
            np.bitwise_or(part, poison, out=part)
        place += size
    start, size = plan.covered[-1]
    data[place:] = poison_bytes(contents.poison, start, size)
    image = Image.of(plan.covered, data)
    for group in range(len(case.layout.groups)):
        _write_table(case, plan.base, image, group)
    for index in range(len(case.program)):
        write_arrays(case, plan, index, image)
    return image


@functools.lru_cache(maxsize=4)
def _background(base: LayoutPlan, pattern: Literal["A", "B"]) -> NDArray[np.uint8]:
    """The poison of all covered spans of a layout, one after the other; 0 where states have their bytes."""
    parts = []
    for (start, size), mask in zip(base.covered, state_masks(base), strict=True):
        poison = poison_bytes(pattern, start, size)
        parts.append(poison if mask is None else poison & ~mask)
    return np.concatenate(parts)


@functools.lru_cache(maxsize=8)
def state_masks(base: LayoutPlan) -> tuple[NDArray[np.uint8] | None, ...]:
    """For each covered span of the layout, 255 for bytes that belong to a block of a state, else 0; None for none."""
    masks: list[NDArray[np.uint8]] = [np.zeros(size, dtype=np.uint8) for _, size in base.covered]
    starts = np.array([start for start, _ in base.covered])
    count = base.layout.num_blocks
    for place in base.states:
        block, stride = block_mask(place.state, place.extent), place.state.block_stride
        spans = np.searchsorted(starts, place.start + stride * np.arange(count), side="right") - 1
        # All blocks at once where one span covers them, as one of most buffers does.
        together = spans[0] == spans[-1]
        for b in (0,) if together else range(count):
            i = int(spans[b])
            at = place.block(b) - int(starts[i])
            shape = (count if together else 1, place.extent)
            blocks = np.ndarray(shape, np.uint8, masks[i], at, (stride, 1))
            np.bitwise_or(blocks, block, out=blocks)
    return tuple(mask if mask.any() else None for mask in masks)


def block_mask(state: object, extent: int) -> NDArray[np.uint8]:
    """255 for each byte of a block that belongs to the state, 0 for those between DS rows."""
    mask = np.full(extent, 255, dtype=np.uint8)
    row_stride = getattr(state, "row_stride", None)
    if row_stride is not None:
        row = state.window * state.item_size  # type: ignore[attr-defined]
        mask[np.arange(extent) % row_stride >= row] = 0
    return mask


def _write_table(case: Case, base: LayoutPlan, image: Image, group: int) -> None:
    layout = case.layout
    shape = (layout.table_rows, layout.table_columns)
    start = base.tables[group]
    # The null block is never stale: a row's nulls are given.
    stale = stale_numbers(case.contents.payload_seed, start, shape[0] * shape[1], 1, layout.num_blocks - 1)
    cells = stale.reshape(shape)
    for row, given in enumerate(case.contents.tables[group]):
        cells[row, : len(given)] = given
    image.view(start, base.table_bytes)[:] = cells.reshape(-1).view(np.uint8)


def write_arrays(case: Case, plan: MemoryPlan, index: int, image: Image) -> None:
    """Put the arguments of operation `index` into an image.

    In an array that an earlier operation of a linked case has used, only the given entries are written.
    """
    spans = plan.arrays[index]
    for array in plan.contents[index]:
        span = spans[array.name]
        if span.operation != index:
            view = image.view(span.start, span.size).view(np.int32)
            view[list(array.entries)] = array.values
            continue
        if array.mapping:
            values = np.full(span.length, SKIP_ROW, dtype=np.int32 if span.item == 4 else np.int64)
        else:
            values = stale_numbers(case.contents.payload_seed, span.start, span.length, *array.stale)
        values[list(array.entries)] = array.values
        image.view(span.start, span.size)[:] = values.view(np.uint8)
