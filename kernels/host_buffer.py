"""A host buffer is a host tensor with a device mirror, through which a runner passes numbers to a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

StartTransfer = Callable[[str, torch.Tensor, torch.Tensor], None]
"""`start(name, source, destination)` copies from host to device, some time before the next launch."""


class HostBuffer:
    """`cpu` and its numpy view `np` on the host, `gpu` on the device, all zero at first.

    The host must not write the view again before a copy to the device has happened (docs/domain.md, section 7).
    """

    def __init__(self, name: str, gpu: torch.Tensor, start: StartTransfer) -> None:
        self.name = name
        self.gpu = gpu
        # uint64 has no numpy conversion in some versions of torch, so the tensor is made from the array.
        self.cpu = torch.from_numpy(np.zeros(tuple(gpu.shape), dtype=_NUMPY[gpu.dtype]))
        if gpu.is_cuda:
            self.cpu = self.cpu.pin_memory()
        self.np: NDArray[Any] = self.cpu.numpy()
        self.gpu.zero_()
        self._start = start

    def copy_to_gpu(self, n: int | None = None) -> torch.Tensor:
        """Copy the first `n` entries (all of them by default) to the device, and return that part of the mirror."""
        self._start(self.name, self.cpu[:n], self.gpu[:n])
        return self.gpu[:n]

    def copy_to_cpu(self, n: int | None = None) -> torch.Tensor:
        """Copy in the other direction. The caller synchronises before it reads."""
        return self.cpu[:n].copy_(self.gpu[:n], non_blocking=True)


_NUMPY = {torch.int32: np.int32, torch.int64: np.int64, torch.uint64: np.uint64}
