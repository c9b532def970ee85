"""Private memory is what a target allocates for itself: served from the arena, fenced, and watched for out-of-bounds
writes.

Its contents are the target's own business (docs/domain.md, section 5). The fences around them are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.case.case import Poison
from harness.check.exported_memory import ExportedMemory
from harness.kernels.executors.base import AccessSpan, Arena
from harness.memory import Allocation, poison_bytes

if TYPE_CHECKING:
    import torch

FENCE = 256


class ReserveExhausted(Exception):
    """Too few bytes are set aside for a target's own buffers: a fault of the harness, not of the target."""


class PrivateMemory:
    """Allocates named tensors from bytes `[start, start + size)` of an arena, which hold a pattern of poison."""

    def __init__(
        self,
        arena: Arena,
        start: int,
        size: int,
        pattern: Poison = "A",
        is_read_only: Callable[[str], bool] = lambda name: False,
    ) -> None:
        """`is_read_only` says of a tensor's name whether kernels never write it."""
        self._arena = arena
        self.exported = ExportedMemory(arena)
        """Memory that the target has exported; its views live on from operation to operation."""
        self._is_read_only = is_read_only
        self._start, self._end = start, start + size
        self._cursor = start + FENCE
        self.spans: list[AccessSpan] = []
        self.allocated: list[Allocation] = []
        """The same as descriptions name them."""
        self._together: tuple[AccessSpan, ...] = ()
        self._pattern: Poison = pattern
        arena.write(start, poison_bytes(pattern, start, size))

    def allocate(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A contiguous tensor full of poison. Raises ReserveExhausted if too little was set aside."""
        count = prod(shape)
        size = max(count, 1) * dtype.itemsize
        offset = self._cursor
        following = (offset + size + 255) // 256 * 256 + FENCE
        if following > self._end:
            raise ReserveExhausted(
                f"the target asked for more private memory than the {self._end - self._start} bytes set aside"
            )
        self._cursor = following
        self.spans.append(AccessSpan(offset, size, "private", name, writable=not self._is_read_only(name)))
        self.allocated.append(Allocation(name, offset, size, dtype.itemsize))
        strides = [prod(shape[i + 1 :]) for i in range(len(shape))]
        return self._arena.tensor(offset, size, dtype, shape, strides)

    def together_with(self, spans: Sequence[AccessSpan]) -> tuple[AccessSpan, ...]:
        """`spans` and those allocated so far: the same tuple until there are more. `spans` must always be the same."""
        if len(self._together) != len(spans) + len(self.spans):
            self._together = (*spans, *self.spans)
        return self._together

    def unwritten(self) -> tuple[int, NDArray[np.uint8]]:
        """Where the allocations start, and 255 for each byte from there on that was never written, else 0.

        Decided by words of 4 bytes: a single byte may equal its poison by chance.
        """
        used = (self._cursor - self._start + 3) // 4 * 4
        same = self._arena.read(self._start, used) == poison_bytes(self._pattern, self._start, used)
        words = same.reshape(-1, 4).all(axis=1)
        return self._start, np.repeat(np.where(words, np.uint8(255), np.uint8(0)), 4)

    def damaged(self) -> list[str]:
        """Names of the allocations whose fences changed."""
        used = self._cursor - self._start
        found = self._arena.read(self._start, used)
        wanted = poison_bytes(self._pattern, self._start, used)
        different = found != wanted
        for span in self.spans:
            different[span.start - self._start : span.start - self._start + span.size] = False
        if not different.any():
            return []
        where = int(np.argmax(different)) + self._start
        return [
            min(self.spans, key=lambda span: min(abs(where - span.start), abs(where - span.start - span.size))).name
        ]
