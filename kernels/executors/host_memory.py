"""Host memory holds arenas in the CPU's address space: one large reserved mapping each, whose pages cost nothing
until they are touched.

So a case may have real block strides and block ids, gigabytes apart, on a laptop. The executors that run kernels on
the CPU share it.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Sequence

import numpy as np
import torch

from harness.kernels.executors.base import Arena, ExecutorCannot

# The Linux value, for Pythons whose mmap module does not name it.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


MARGIN = 1 << 33
"""Address space on either side of an arena: an offset that wrapped in 32 bits reads zeros there, and harms nobody."""


class HostArena(Arena):
    """`size` bytes of private anonymous memory, zero at first, page aligned. Dropping it and its tensors frees it.

    Raises ExecutorCannot if the address space has no room, ValueError if `size` is negative.
    """

    def __init__(self, size: int) -> None:
        if size < 0:
            raise ValueError(f"an arena cannot have {size} bytes")
        try:
            self._mapping = mmap.mmap(
                -1,
                size + 2 * MARGIN,
                flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE,
                prot=mmap.PROT_READ | mmap.PROT_WRITE,
            )
        except (OSError, OverflowError) as error:
            raise ExecutorCannot(f"no room for an arena of {size} bytes: {error}") from error
        # A huge page would be zeroed in full for the one byte that is touched in it.
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            with contextlib.suppress(OSError):  # a system without huge pages has none to turn off
                self._mapping.madvise(mmap.MADV_NOHUGEPAGE)
        self.size = size
        self._bytes = np.frombuffer(self._mapping, dtype=np.uint8, count=size, offset=MARGIN)
        self.address = self._bytes.ctypes.data

    def write(self, offset: int, data: np.ndarray) -> None:
        self._bytes[self._range(offset, len(data))] = data

    def read(self, offset: int, size: int) -> np.ndarray:
        view = self._bytes[self._range(offset, size)]
        view.flags.writeable = False
        return view

    def tensor(
        self, offset: int, size: int, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]
    ) -> torch.Tensor:
        self._range(offset, size)
        empty = torch.empty(0, dtype=dtype)
        if size == 0:
            return empty.new_empty_strided(tuple(shape), tuple(strides))
        storage = torch.frombuffer(
            self._mapping, dtype=torch.uint8, count=size, offset=MARGIN + offset
        ).untyped_storage()
        return empty.set_(storage, 0, tuple(shape), tuple(strides))

    def discard(self, offset: int, size: int) -> None:
        """Make these bytes zero again. Whole pages are given back to the system, which costs next to nothing."""
        self._range(offset, size)
        end = offset + size
        first = min(end, -(-offset // mmap.PAGESIZE) * mmap.PAGESIZE)
        last = max(first, end // mmap.PAGESIZE * mmap.PAGESIZE)
        self._bytes[offset:first] = 0
        if last > first:
            self._mapping.madvise(mmap.MADV_DONTNEED, MARGIN + first, last - first)
        self._bytes[last:end] = 0

    def _range(self, offset: int, size: int) -> slice:
        if not 0 <= offset <= offset + size <= self.size:
            raise ValueError(f"bytes [{offset}, {offset + size}) are not in an arena of {self.size} bytes")
        return slice(offset, offset + size)
