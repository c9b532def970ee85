"""A tensor on the host with a mirror on the device, through which a runner hands numbers to kernels."""

from __future__ import annotations

from typing import Any


class HostBuffer:
    """Takes the place of vLLM's CpuGpuBuffer."""

    def __init__(self, size: Any, dtype: Any, device: Any, **_: Any) -> None:
        import numpy
        import torch

        self.gpu = torch.zeros(size, dtype=dtype, device=device)
        kinds = {torch.int32: numpy.int32, torch.int64: numpy.int64, torch.uint64: numpy.uint64}
        self.cpu = torch.from_numpy(numpy.zeros(tuple(self.gpu.shape), kinds[dtype]))
        self.np = self.cpu.numpy()

    def copy_to_gpu(self, n: int | None = None) -> Any:
        return self.gpu[:n].copy_(self.cpu[:n])

    def copy_to_cpu(self, n: int | None = None) -> Any:
        return self.cpu[:n].copy_(self.gpu[:n])
