"""Allocation: device memory that production code allocates while creating its context comes from the arena.

There it has guard bytes around it, addresses that the executor can check, and a name that a report can use. A torch
function mode intercepts the factory calls of the code under test, which is not changed. Names are those of the
attributes that hold the tensors, which are known only once the context exists. So the first context of a target is
created twice; the first time outside the arena, only to learn the order of the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from harness.kernels.host_buffer import HostBuffer, StartTransfer
from harness.kernels.targets.base import Allocate

Fill = Callable[[torch.Tensor, Mapping[str, Any], Sequence[Any]], object]


def _leave(tensor: torch.Tensor, _keywords: Mapping[str, Any], _arguments: Sequence[Any]) -> object:
    return tensor  # production leaves it undefined: poison shows whether any code relies on it


def _zero(tensor: torch.Tensor, _keywords: Mapping[str, Any], _arguments: Sequence[Any]) -> object:
    return tensor.zero_()


def _one(tensor: torch.Tensor, _keywords: Mapping[str, Any], _arguments: Sequence[Any]) -> object:
    return tensor.fill_(1)


def _value(tensor: torch.Tensor, keywords: Mapping[str, Any], arguments: Sequence[Any]) -> object:
    return tensor.fill_(keywords["fill_value"] if "fill_value" in keywords else arguments[1])


_BY_SIZE: Mapping[Any, Fill] = {torch.zeros: _zero, torch.ones: _one, torch.empty: _leave, torch.full: _value}
_BY_EXAMPLE: Mapping[Any, Fill] = {
    torch.zeros_like: _zero,
    torch.ones_like: _one,
    torch.empty_like: _leave,
    torch.full_like: _value,
}


class Allocations(TorchFunctionMode):
    """While it is active, tensors created for `device` come from `allocate`, with the next of `names`.

    Only calls that name the device count: on a CPU executor, host memory is requested without a device.
    `served` lists the returned tensors, in order, `latest` is the name of the last one; `start` sends host buffers.
    """

    def __init__(
        self,
        device: torch.device,
        allocate: Allocate,
        start: StartTransfer,
        names: Iterable[str] = (),
        prefix: str = "",
    ) -> None:
        super().__init__()
        self._start = start
        self.latest = ""
        self._device = device
        self._allocate = allocate
        self._names = iter(names)
        self._prefix = prefix
        self._serving = False
        self.served: list[torch.Tensor] = []

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        keywords = kwargs or {}
        if self._serving:  # `allocate` may itself use torch
            return func(*args, **keywords)
        if func in _BY_SIZE and self._is_ours(keywords.get("device")):
            dtype = keywords.get("dtype") or _default_type(func, args, keywords)
            return self._serve(_size(func, args, keywords), dtype, _BY_SIZE[func], keywords, args)
        if func in _BY_EXAMPLE:
            example = args[0] if args else keywords["input"]
            if self._is_ours(keywords.get("device") or example.device):
                dtype = keywords.get("dtype") or example.dtype
                return self._serve(tuple(example.shape), dtype, _BY_EXAMPLE[func], keywords, args)
        return func(*args, **keywords)

    def make_buffer(self, *size: int, dtype: torch.dtype, **_options: Any) -> HostBuffer:
        """What a runner passes to contexts as `make_buffer`."""
        gpu = self._next(size, dtype)
        return HostBuffer(self.latest, gpu, self._start)

    def _is_ours(self, device: Any) -> bool:
        return device is not None and torch.device(device).type == self._device.type

    def _serve(
        self,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        fill: Fill,
        keywords: Mapping[str, Any],
        arguments: Sequence[Any],
    ) -> torch.Tensor:
        tensor = self._next(shape, dtype)
        fill(tensor, keywords, arguments)
        return tensor

    def _next(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        self.latest = self._prefix + next(self._names, f"private {len(self.served)}")
        self._serving = True
        try:
            tensor = self._allocate(self.latest, shape, dtype)
        finally:
            self._serving = False
        self.served.append(tensor)
        return tensor


def _default_type(func: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> torch.dtype:
    if func is torch.full:
        value = keywords["fill_value"] if "fill_value" in keywords else arguments[1]
        return torch.tensor(value).dtype
    return torch.get_default_dtype()


def _size(func: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[int, ...]:
    size = keywords.get("size", arguments[0] if func is torch.full else arguments)
    if not isinstance(size, int) and len(size) == 1 and not isinstance(size[0], int):
        size = size[0]  # torch.zeros((2, 3)) rather than torch.zeros(2, 3)
    return (size,) if isinstance(size, int) else tuple(size)


def on_device(device: torch.device) -> Allocate:
    """Ordinary device memory, for the first creation, which only learns the names."""

    def allocate(_name: str, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(tuple(shape), dtype=dtype, device=device)

    return allocate


def attribute_names(owners: Mapping[str, Any], served: Sequence[torch.Tensor]) -> list[str]:
    """For each served tensor the attribute that holds it, with its owner's prefix; or a number."""
    names: dict[int, str] = {}
    for prefix, owner in owners.items():
        for attribute, value in vars(owner).items():
            if isinstance(value, torch.Tensor):
                names[id(value)] = prefix + attribute
            elif isinstance(value, HostBuffer):
                names[id(value.gpu)] = prefix + attribute
    return [names.get(id(tensor), f"private {index}") for index, tensor in enumerate(served)]
