"""A block is what a worker is given at a time: consecutive cases, of which the subject says how many."""

from __future__ import annotations

from collections.abc import Collection

from harness.campaign.shard import Shard


class Blocks:
    """Hands out the cases that no worker has yet, in order.

    A block has `size` cases at most. There are `most` cases in all (None: no end), and none of `done`, which an earlier
    part judged. With a `shard` only its blocks are handed out.
    """

    def __init__(self, size: int, most: int | None, shard: Shard | None, done: Collection[int]) -> None:
        self._size, self._most, self._shard, self._done = size, most, shard, done
        self._next = 0

    def take(self) -> tuple[int, int]:
        """The first case of the next block, and the one behind its last; the same number twice if there is none."""
        while self._most is None or self._next < self._most:
            if self._shard is not None and not self._shard.has(self._next // self._size):
                self._next = (self._next // self._size + 1) * self._size
            elif self._next in self._done:
                self._next += 1
            else:
                break
        start = self._next
        end = (start // self._size + 1) * self._size
        if self._most is not None:
            end = max(start, min(end, self._most))
        if self._done:
            end = next((index for index in range(start, end) if index in self._done), end)
        self._next = end
        return start, end
