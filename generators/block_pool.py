"""A block pool holds the physical blocks that requests of all groups take and give back, prefix cache included.

Blocks are handled a column at a time: a cell is one physical block per group, since all Mamba groups keep the same
columns and only their ids differ. A block given back keeps its contents and its cache entry until it is taken again,
which is why stale ids in tables are dangerous.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable

Cell = tuple[int, ...]
"""Physical block of one column in every group. A cell of zeros is the null block in all of them."""

FREE = -1
"""Owner of a block that no group has ever taken."""


class BlockPool:
    """Blocks `order` (every id but 0) of `groups` groups, taken from the left and given back to the right."""

    def __init__(self, order: Iterable[int], groups: int) -> None:
        self._free = deque(order)
        self._references = [0] * (len(self._free) + 1)
        self._keys: list[Hashable] = [None] * (len(self._free) + 1)
        self._cached: list[dict[Hashable, int]] = [{} for _ in range(groups)]
        self.owners = [FREE] * (len(self._free) + 1)

    def can_take(self, cells: int) -> bool:
        """Whether `cells` new cells are left."""
        return cells * len(self._cached) <= len(self._free)

    def take(self, cells: int) -> list[Cell]:
        """New cells, each block held once; the blocks lose their cache entries."""
        if not cells:
            return []
        free, keys, owners = self._free, self._keys, self.owners
        taken = []
        for group in range(len(self._cached)):
            blocks = [free.popleft() for _ in range(cells)]
            for block in blocks:
                if keys[block] is not None:
                    del self._cached[owners[block]][keys[block]]
                    keys[block] = None
                self._references[block] = 1
                owners[block] = group
            taken.append(blocks)
        return list(zip(*taken, strict=True))

    def hold(self, cell: Cell) -> None:
        """Hold the blocks of a cached cell once more."""
        for block in cell:
            if self._references[block] == 0:
                self._free.remove(block)
            self._references[block] += 1

    def release(self, cell: Cell) -> None:
        """Release a cell's blocks once; null blocks are ignored."""
        for block in cell:
            if block:
                self._references[block] -= 1
                if self._references[block] == 0:
                    self._free.append(block)

    def register(self, key: Hashable, cell: Cell) -> None:
        """Remember that the blocks of `cell` hold the state that `key` names; the first registration of a key stays."""
        for cached, block in zip(self._cached, cell, strict=True):
            if block and key not in cached and self._keys[block] is None:
                cached[key] = block
                self._keys[block] = key

    def find(self, key: Hashable) -> Cell | None:
        """The cell that holds the state `key`, if every group still has it."""
        cell = tuple(cached.get(key, 0) for cached in self._cached)
        return cell if all(cell) else None
