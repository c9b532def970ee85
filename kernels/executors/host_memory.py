"""Host memory holds arenas in the CPU's address space: each is a large reserved mapping, whose pages cost nothing
until they are touched.

Addresses may be raised by 2**63, so that kernels and host code see what some devices have: the highest bit set. A
tensor then reports the raised address, and the code that runs kernels subtracts it again.

So a case may have real block strides and block ids, gigabytes apart, on a laptop. The executors that run kernels on
the CPU share this module.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Sequence

import numpy as np
import torch

from harness.kernels.executors.base import Arena, ExecutorCannot

# The Linux value, for Python versions whose mmap module does not have it.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


MARGIN = 1 << 33
"""Address space on either side of an arena: an offset that wrapped in 32 bits reads zeros there, without harm."""


HIGHEST_BIT = 1 << 63


def _raised_tensors(start: int, size: int) -> type[torch.Tensor]:
    """A class of tensors whose addresses have the highest bit set, if they lie in `size` bytes from `start` on."""

    class RaisedTensor(torch.Tensor):
        """Results computed from such a tensor have the class too, both views and results in other memory."""

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
        # With huge pages, touching one byte would zero the whole page.
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            with contextlib.suppress(OSError):  # a system without huge pages cannot turn them off
                self._mapping.madvise(mmap.MADV_NOHUGEPAGE)
        self.size = size
        self._bytes = np.frombuffer(self._mapping, dtype=np.uint8, count=size, offset=MARGIN)
        self._real = self.address = self._bytes.ctypes.data
        self._kind: type[torch.Tensor] = torch.Tensor
        self._raised = _raised_tensors(self._real, size)

    @property
    def raised_by(self) -> int:
        """The difference between the reported addresses and those in this process."""
        return self.address - self._real

    def raise_addresses(self, raised: bool) -> None:
        """Set the highest bit of addresses from now on, or stop that. Tensors made before keep their addresses."""
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
        view = torch.frombuffer(self._mapping, dtype=torch.uint8, count=size, offset=MARGIN + offset)
        storage = torch._C.TensorBase.untyped_storage(view)  # the method of Tensor may be watched: this is no export
        return empty.set_(storage, 0, tuple(shape), tuple(strides)).as_subclass(self._kind)

    def discard(self, offset: int, size: int) -> None:
        """Make these bytes zero again. Whole pages are returned to the system, which costs next to nothing."""
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
