"""Host memory holds arenas in the CPU's address space: one large reserved mapping each, whose pages cost nothing
until they are touched.

Addresses may be raised by 2**63, so that kernels and host code see what some devices have, the highest bit set: a
tensor then says so itself, and whoever runs the kernels takes it off again.

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


HIGHEST_BIT = 1 << 63


def _raised_tensors(start: int, size: int) -> type[torch.Tensor]:
    """A class of tensors whose addresses, if they lie in `size` bytes from `start` on, have the highest bit."""

    class RaisedTensor(torch.Tensor):
        """Whatever is computed from one is one too, views as well as results in other memory."""

        def data_ptr(self) -> int:
            address = super().data_ptr()
            return address + HIGHEST_BIT if start <= address < start + size else address

    return RaisedTensor


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
        self._real = self.address = self._bytes.ctypes.data
        self._kind: type[torch.Tensor] = torch.Tensor
        self._raised = _raised_tensors(self._real, size)

    @property
    def raised_by(self) -> int:
        """What addresses are more than where they lie in this process."""
        return self.address - self._real

    def raise_addresses(self, raised: bool) -> None:
        """Give addresses the highest bit from now on, or stop it. Tensors made before keep what they say."""
        self.address = self._real + (HIGHEST_BIT if raised else 0)
        self._kind = self._raised if raised else torch.Tensor

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
            return empty.new_empty_strided(tuple(shape), tuple(strides)).as_subclass(self._kind)
        with torch._C.DisableTorchFunction():  # whoever watches what a target does with storages: this one is ours
            storage = torch.frombuffer(
                self._mapping, dtype=torch.uint8, count=size, offset=MARGIN + offset
            ).untyped_storage()
        return empty.set_(storage, 0, tuple(shape), tuple(strides)).as_subclass(self._kind)

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
