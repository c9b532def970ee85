"""A claimed tensor claims to be on a CUDA device, for production code that checks this but does not need it."""

from __future__ import annotations

import torch


class _Claimed(torch.Tensor):
    address: int
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # plain results

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    def data_ptr(self) -> int:
        """The address of the tensor that this one replaces."""
        return self.address


def claim_cuda(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory; the tensor itself if it is on a CUDA device."""
    if tensor.is_cuda:
        return tensor
    claimed: torch.Tensor = torch.Tensor._make_subclass(_Claimed, tensor)
    claimed.address = tensor.data_ptr()  # type: ignore[attr-defined]
    return claimed
