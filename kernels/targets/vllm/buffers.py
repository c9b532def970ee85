"""A CpuGpuBuffer is a host tensor with a device mirror, through which a runner hands numbers to a kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch


class CpuGpuBuffer:
    """`cpu` and its numpy view `np` on the host, `gpu` on the device, all zero at first.

    The host must not write the view again before a copy to the device has happened (docs/domain.md, section 7).
    """

    def __init__(
        self, size: tuple[int, ...], dtype: torch.dtype, gpu: Callable[[tuple[int, ...], torch.dtype], torch.Tensor]
    ) -> None:
        self.gpu = gpu(size, dtype)
        # uint64 has no numpy conversion in some versions of torch, so the tensor is made from the array.
        self.cpu = torch.from_numpy(np.zeros(size, dtype=_NUMPY[dtype]))
        if self.gpu.is_cuda:
            self.cpu = self.cpu.pin_memory()
        self.np = self.cpu.numpy()
        self.gpu.zero_()

    def copy_to_gpu(self, n: int | None = None) -> torch.Tensor:
        """Copy the first `n` entries (all of them by default) to the device, and return that part of the mirror."""
        return self.gpu[:n].copy_(self.cpu[:n], non_blocking=True)

    def copy_to_cpu(self, n: int | None = None) -> torch.Tensor:
        """The reverse. The caller synchronises before it reads."""
        return self.cpu[:n].copy_(self.gpu[:n], non_blocking=True)


_NUMPY = {torch.int32: np.int32, torch.int64: np.int64, torch.uint64: np.uint64}
