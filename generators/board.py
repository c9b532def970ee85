"""A board is the block tables of a total case while its rows are being drawn.

Rows claim columns. The board decides which physical blocks lie there, so that no program of a launch writes a byte
that another one reads or writes: a destination block belongs to one row alone, source blocks may be shared. The
remaining cells are filled with stale ids.
"""

from __future__ import annotations

from harness.generators.draw import Draw
from harness.generators.parts import Tables

FREE = -1
NULL = 0


class _GroupBoard:
    """One group's table. `written` and `read` say which row of the current launch uses a block."""

    def __init__(self, owners: list[int], group: int) -> None:
        self._owners = owners
        self._group = group
        self.cells: dict[int, dict[int, int]] = {}
        self._owned: list[int] = []
        self._written: dict[int, int] = {}
        self._read: dict[int, set[int]] = {}

    def begin_launch(self) -> None:
        self._written.clear()
        self._read.clear()

    def claim(self, draw: Draw, pool: list[int], slot: int, move: tuple[int, int, int]) -> bool:
        """Put blocks into the columns of a move (source, destination, bias). False if it would conflict with a row."""
        source, destination, bias = move
        row = self.cells.setdefault(slot, {})
        for column in (source, source + bias):
            if column not in row:
                block = self._source(draw, pool, slot)
                row[column] = block
            if self._written.get(row[column], slot) != slot:
                return False
        if destination not in row:
            block = self._destination(draw, pool, slot, row[source], row[source + bias])
            if block == NULL:
                return False
            row[destination] = block
        target = row[destination]
        readers = self._read.get(target)
        if target == NULL or self._written.get(target, slot) != slot or (readers and readers != {slot}):
            return False
        self._written[target] = slot
        for column in (source, source + bias):
            self._read.setdefault(row[column], set()).add(slot)
        return True

    def _source(self, draw: Draw, pool: list[int], slot: int) -> int:
        how = draw.integer(0, 24)
        if how == 0:
            return NULL
        if self._read and (how < 4 or not pool):
            block = draw.choice(list(self._read))
            if self._written.get(block, slot) == slot:
                return block
        return self._take(pool) or self._reuse(draw, slot) or NULL

    def _destination(self, draw: Draw, pool: list[int], slot: int, source: int, spec: int) -> int:
        """A block to write: a new one, or one of the row's own sources under a second column."""
        if draw.boolean(0.15):
            alias = source if draw.boolean(0.8) else spec
            if alias != NULL and self._read.get(alias, {slot}) == {slot}:
                return alias
        return self._take(pool) or self._reuse(draw, slot)

    def _take(self, pool: list[int]) -> int:
        if not pool:
            return NULL
        block = pool.pop()
        self._owners[block] = self._group
        self._owned.append(block)
        return block

    def _reuse(self, draw: Draw, slot: int) -> int:
        """A block of this group that no other row of this launch uses; the null block if there is none."""
        spare = [block for block in self._owned if block not in self._written and block not in self._read]
        return draw.choice(spare) if spare else NULL


class Board:
    """Block tables of every group, and the owners of all blocks."""

    def __init__(self, draw: Draw, num_blocks: int, groups: int) -> None:
        self._draw = draw
        self._num_blocks = num_blocks
        self.owners = [FREE] * num_blocks
        self._groups = [_GroupBoard(self.owners, group) for group in range(groups)]
        self._pool = draw.permutation(range(1, num_blocks)) if num_blocks <= 64 else list(range(num_blocks - 1, 0, -1))

    def begin_launch(self) -> None:
        """Allow any use of the blocks that the previous launch used."""
        for group in self._groups:
            group.begin_launch()

    def claim(self, slot: int, move: tuple[int, int, int]) -> bool:
        """Make a move (source column, destination column, bias) of a slot possible; False if that cannot be done."""
        return all(group.claim(self._draw, self._pool, slot, move) for group in self._groups)

    def finish(self) -> Tables:
        """Tables whose rows end at the last claimed cell or a little later; the gaps hold stale ids."""
        draw = self._draw
        slots = [slot for group in self._groups for slot in group.cells]
        height = max(slots, default=-1) + 1
        step, stale = draw.integer(1, 7), draw.integer(0, self._num_blocks - 1)
        tables = []
        for group in self._groups:
            table: list[tuple[int, ...]] = []
            for slot in range(height):
                cells = group.cells.get(slot)
                if not cells:
                    table.append(())
                    continue
                width = max(cells) + 1
                stale += slot
                table.append(
                    tuple(
                        cells[column] if column in cells else (stale + column * step) % self._num_blocks
                        for column in range(width)
                    )
                )
            tables.append(tuple(table))
        if draw.boolean():
            leftover = draw.integer(0, len(self._groups) - 1)
            for block in self._pool:
                self.owners[block] = leftover
        return tuple(tables)
