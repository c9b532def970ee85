"""A claimed tensor says that it is on a CUDA device, for production code that asks and does not need it to be."""

from __future__ import annotations

import torch


class _Claimed(torch.Tensor):
    said: int
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # plain results

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    def data_ptr(self) -> int:
        """What the tensor said that this one claims to be."""
        return self.said


def claim_cuda(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory; the tensor itself if it is on such a device."""
    if tensor.is_cuda:
        return tensor
    claimed: torch.Tensor = torch.Tensor._make_subclass(_Claimed, tensor)
    claimed.said = tensor.data_ptr()  # type: ignore[attr-defined]
    return claimed
