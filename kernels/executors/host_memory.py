"""Host memory is the arena of executors that run on the CPU: one reserved mapping, of which only what is
touched exists.

Reserving is free, so block strides and offsets of real deployments, past 2**32 bytes, need no scaling down.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence

import numpy as np
import torch

from harness.kernels.executors.base import Arena, ExecutorCannot

_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0)


class HostArena(Arena):
    """An anonymous private mapping of `size` bytes, zero where nothing was written. Raises ExecutorCannot."""

    def __init__(self, size: int) -> None:
        try:
            self._mapping = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        except (OSError, OverflowError) as error:
            raise ExecutorCannot(f"cannot reserve {size} bytes of address space: {error}") from error
        self._bytes = np.frombuffer(self._mapping, dtype=np.uint8)
        self.size = size
        self.address = self._bytes.ctypes.data

    def write(self, offset: int, data: np.ndarray) -> None:
        self._check(offset, data.size)
        self._bytes[offset : offset + data.size] = data

    def read(self, offset: int, size: int) -> np.ndarray:
        self._check(offset, size)
        return self._bytes[offset : offset + size]

    def tensor(
        self, offset: int, size: int, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]
    ) -> torch.Tensor:
        self._check(offset, size)
        empty = torch.empty(0, dtype=dtype)
        if size == 0:
            return empty.as_strided(tuple(shape), tuple(strides))
        # A storage of exactly these bytes: Triton's interpreter copies the whole storage of every argument.
        storage = torch.frombuffer(self._mapping, dtype=torch.uint8, count=size, offset=offset).untyped_storage()
        return empty.set_(storage, 0, tuple(shape), tuple(strides))

    def _check(self, offset: int, size: int) -> None:
        if not 0 <= offset <= offset + size <= self.size:
            raise IndexError(f"bytes {offset} to {offset + size} of an arena of {self.size} bytes")
