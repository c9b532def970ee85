"""The cuda executor runs kernels as production does: compiled by Triton, on an NVIDIA GPU.

It sees wrong bytes and faults of the device. An out-of-bounds access that stays inside the arena is seen only by the
bytes that it changes.
"""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from harness.kernels.executors.base import Arena, Executor, ExecutorCannot
from harness.kernels.executors.requirements import unmet

if TYPE_CHECKING:
    import numpy as np
    import torch


DRIVER = "libcuda.so.1"
"""The library of the driver, through which PyTorch reaches a GPU."""


def has_driver() -> bool:
    """Whether the driver is installed: without it no GPU can be used."""
    try:
        ctypes.CDLL(DRIVER)
    except OSError:
        return False
    return True


class CudaExecutor(Executor):
    """Runs kernels on the current CUDA device."""

    name = "cuda"

    def __init__(self) -> None:
        import torch
        import triton

        self.device = torch.device("cuda", torch.cuda.current_device())
        # A whole vLLM in this process must see no GPU. PyTorch and Triton keep what they have found out by then.
        torch.cuda.device_count()
        _ = triton.runtime.driver.active

    @classmethod
    def unavailable(cls) -> str | None:
        reason = unmet("torch", "triton", "numpy")
        if reason is not None:
            return reason
        if not has_driver():  # most machines: importing torch to find that out takes seconds
            return f"there is no NVIDIA driver ({DRIVER})"
        import torch

        if torch.version.cuda is None:
            return "this build of PyTorch has no CUDA"
        if not torch.cuda.is_available():
            return "PyTorch finds no CUDA device"
        if os.environ.get("TRITON_INTERPRET") == "1":
            return "TRITON_INTERPRET=1 is set, which makes Triton interpret kernels"
        return None

    def allocate(self, size: int) -> Arena:
        return CudaArena(size, self.device)

    def is_device_fault(self, error: BaseException) -> bool:
        """CUDA reports a fault at some later call, of PyTorch, of Triton or neither; a context that had a fault never
        recovers, and says so whenever it is asked. Other errors, such as a grid that is too large, are gone by then."""
        try:
            self.settle()
        except RuntimeError:
            return True
        return False

    def settle(self) -> None:
        import torch

        torch.cuda.synchronize(self.device)

    def jit(self, function: Callable[..., Any], **options: Any) -> Any:
        from triton.runtime.jit import JITFunction

        executor = self

        class CountedFunction(JITFunction):  # type: ignore[misc]
            """A compiled kernel whose launches are counted."""

            @property
            def cache_key(self) -> str:
                """Triton's own key leaves out the defaults of parameters, in which our kernels have constants."""
                parameters = inspect.signature(self.fn).parameters.values()
                defaults = [str(each.default) for each in parameters if each.default is not each.empty]
                return hashlib.sha256("|".join([super().cache_key, *defaults]).encode()).hexdigest()

            def run(self, *arguments: Any, grid: Any, warmup: bool, **keywords: Any) -> Any:
                if not warmup:
                    executor.launches += 1
                return super().run(*arguments, grid=grid, warmup=warmup, **keywords)

        return CountedFunction(function, **options)


STAGING_BYTES = 1 << 26
"""Page-locked host memory for small copies."""

KEPT_BYTES = 1 << 28
"""Maximum number of bytes of device memory that a worker keeps for later when it needs more: others may need them."""

FEW_SPANS = 8
"""Up to this many spans are copied one by one; more are gathered on the device, byte by byte, which is cheaper."""

GATHERED_BYTES = 1 << 22
"""Maximum bytes that are gathered: each needs an index of eight bytes."""


class CudaArena(Arena):
    """One allocation on a CUDA device.

    A case needs many small copies. From page-locked memory they are only queued, in order with the kernels around them,
    and the host waits once, when it reads.
    """

    def __init__(self, size: int, device: torch.device) -> None:
        import torch

        if torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device) > KEPT_BYTES:
            torch.cuda.empty_cache()
        try:
            # The caching allocator aligns to 512 bytes.
            self._memory = torch.empty(max(size, 1), dtype=torch.uint8, device=device)
        except torch.cuda.OutOfMemoryError as error:
            raise ExecutorCannot(f"{device} has no room for {size} bytes") from error
        self._staging = torch.empty(STAGING_BYTES, dtype=torch.uint8, pin_memory=True)
        self._used = 0
        self._gathered: tuple[Sequence[tuple[int, int]], torch.Tensor] | None = None
        self.size = size
        self.address = self._memory.data_ptr()

    def write(self, offset: int, data: np.ndarray) -> None:
        import numpy as np
        import torch

        self._check(offset, data.size)
        place = self._memory[offset : offset + data.size]
        staged = self._staged(data.size)
        if staged is None:
            place.copy_(torch.from_numpy(np.array(data, dtype=np.uint8)))
        else:
            staged.numpy()[:] = data
            place.copy_(staged, non_blocking=True)

    def read(self, offset: int, size: int) -> np.ndarray:
        return self.read_all([(offset, size)])

    def write_all(self, spans: Sequence[tuple[int, int]], data: np.ndarray) -> None:
        staged = self._staged(data.size)
        if staged is None:
            super().write_all(spans, data)
            return
        staged.numpy()[:] = data
        place = 0
        index, apart = self._split(spans)
        if index is not None:
            place = len(index)
            self._memory.index_copy_(0, index, staged[:place].to(self._memory.device, non_blocking=True))
        for offset, size in apart:
            self._memory[offset : offset + size].copy_(staged[place : place + size], non_blocking=True)
            place += size

    def read_all(self, spans: Sequence[tuple[int, int]]) -> np.ndarray:
        import torch

        total = sum(size for _, size in spans)
        staged = self._staged(total)
        if staged is None:
            staged = torch.empty(total, dtype=torch.uint8)
        place = 0
        index, apart = self._split(spans)
        if index is not None:
            place = len(index)
            staged[:place].copy_(self._memory.index_select(0, index), non_blocking=True)
        for offset, size in apart:
            staged[place : place + size].copy_(self._memory[offset : offset + size], non_blocking=True)
            place += size
        self._wait()
        found: np.ndarray = staged.numpy().copy()
        return found

    def _split(self, spans: Sequence[tuple[int, int]]) -> tuple[torch.Tensor | None, Sequence[tuple[int, int]]]:
        """The index of all bytes of the first spans, which cases of a layout share, and the remaining spans.

        The last span holds the arguments of one case. There is no index where it would not save time.
        """
        for offset, size in spans:
            self._check(offset, size)
        if len(spans) <= FEW_SPANS or sum(size for _, size in spans[:-1]) > GATHERED_BYTES:
            return None, spans
        if self._gathered is None or self._gathered[0] != spans[:-1]:
            import numpy as np
            import torch

            index = np.concatenate([np.arange(offset, offset + size) for offset, size in spans[:-1]])
            self._gathered = spans[:-1], torch.from_numpy(index).to(self._memory.device)
        return self._gathered[1], spans[-1:]

    def _staged(self, size: int) -> torch.Tensor | None:
        """Page-locked memory that no queued copy uses, waiting if necessary; None if the request is too large."""
        if size > STAGING_BYTES - self._used:
            if size > STAGING_BYTES:
                return None
            self._wait()
        staged = self._staging[self._used : self._used + size]
        self._used += size
        return staged

    def _wait(self) -> None:
        """Wait until everything queued is done. Faults of kernels are raised here."""
        import torch

        torch.cuda.synchronize(self._memory.device)
        self._used = 0

    def tensor(
        self, offset: int, size: int, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]
    ) -> torch.Tensor:
        import torch

        self._check(offset, size)
        storage = torch.as_tensor(_Bytes(self._memory, offset, size), device=self._memory.device).untyped_storage()
        empty = torch.empty(0, dtype=dtype, device=self._memory.device)
        return empty.set_(storage, 0, tuple(shape), tuple(strides))

    def _check(self, offset: int, size: int) -> None:
        if not 0 <= offset <= offset + size <= self.size:
            raise IndexError(f"bytes {offset} to {offset + size} of an arena of {self.size} bytes")


class _Bytes:
    """Bytes of a CUDA tensor as a separate array, so that a tensor made from it has exactly these bytes as its
    storage."""

    def __init__(self, memory: torch.Tensor, offset: int, size: int) -> None:
        self._memory = memory  # keeps the allocation alive
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (memory.data_ptr() + offset, False),
            "version": 2,
        }
