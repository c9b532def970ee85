"""A shadow says for each byte of an image whether it is initialised: 0 if so, 255 if not.

Uninitialised are poison, table cells and array entries that are not given (stale, but in range), and the states of
blocks that belong to no group: no request has ever written them. Their contents are arbitrary, so nothing may depend on
them; copying them along is not a fault.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from harness.case import Case
from harness.case.case import FREE
from harness.memory.contents import block_mask, state_masks
from harness.memory.image import Image
from harness.memory.plan import LayoutPlan, MemoryPlan

UNDEFINED = 255


def initial_shadow(case: Case, plan: MemoryPlan) -> Image:
    """The shadow of a case's image before its first operation."""
    of_layout = _layout_shadow(plan.base)
    rest = np.full(plan.covered[-1][1], UNDEFINED, dtype=np.uint8)
    image = Image.of(plan.covered, np.concatenate([of_layout, rest]))
    _forget_blocks(case, plan.base, image)
    for group, table in enumerate(case.contents.tables):
        for row, given in enumerate(table):
            image.view(plan.base.table_cell(group, row, 0), 4 * len(given))[:] = 0
    for index in range(len(case.program)):
        define_arrays(plan, index, image)
    return image


@functools.lru_cache(maxsize=4)
def _layout_shadow(base: LayoutPlan) -> NDArray[np.uint8]:
    """The shadow of all covered spans of a layout, one after the other, as if all blocks had been written."""
    return np.concatenate(
        [
            np.full(size, UNDEFINED, dtype=np.uint8) if mask is None else UNDEFINED - mask
            for (_, size), mask in zip(base.covered, state_masks(base), strict=True)
        ]
    )


def _forget_blocks(case: Case, base: LayoutPlan, image: Image) -> None:
    unwritten = [block for block, owner in enumerate(case.contents.owners) if owner == FREE]
    for place in base.states:
        mask = block_mask(place.state, place.extent)
        for block in unwritten:
            shadow = image.view(place.block(block), place.extent)
            shadow |= mask


def define_arrays(plan: MemoryPlan, index: int, shadow: Image) -> None:
    """The given entries of the arguments of operation `index` are defined from now on."""
    for array in plan.contents[index]:
        span = plan.arrays[index][array.name]
        entries = shadow.view(span.start, span.size).reshape(span.length, span.item)
        # A mapping says "skip" where nothing is given.
        entries[slice(None) if array.mapping else list(array.entries)] = 0
