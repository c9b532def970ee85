"""Exported memory is memory that host code of a target has passed to numpy, DLPack, or a bare storage.

From then on it can be written without torch, which is not observed: it counts as defined as long as the tensor or such
a view of it exists. So a stale number that host code has read through numpy is no longer found: that is the price of
no false alarms. (Targets do not read device memory that way; buffers of the host lie outside.)

A bare address does not count as an export, although it could be written through: kernels get every tensor that way, and
all of them would count as defined. Nor do the old `torch.utils.dlpack.to_dlpack`, methods of torch's inner class, and
methods that somebody has kept from before the first case, which cannot be observed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Self

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from harness.kernels.executors.base import Arena
from harness.kernels.executors.host_memory import HostArena
from harness.memory import ArraySpan

_WAYS_OUT = (
    *("numpy", "__array__", "__dlpack__", "untyped_storage", "storage", "_typed_storage"),
    *("apply_", "map_", "map2_", "share_memory_"),
)
"""Methods after which a tensor's memory may be written unobserved, or, for `apply_` and similar ones, has been."""

_entered: list[ExportedMemory] = []
"""The records that are kept now; the last ones get what happens."""


class ExportedMemory:
    """Records which memory is exported while it is entered; the records stay valid afterwards."""

    def __init__(self, arena: Arena) -> None:
        _observe()
        raised_by = arena.raised_by if isinstance(arena, HostArena) else 0
        self._start, self._size = arena.address - raised_by, arena.size
        self._storages: dict[int, tuple[StorageWeakRef, int, int]] = {}
        """By identity, which no other storage gets while a reference is kept: with arena offset and size."""

    def __enter__(self) -> Self:
        _entered.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _entered.remove(self)

    def holds(self, storage: torch.UntypedStorage) -> bool:
        """Whether a storage outside of the arena has been exported, or never was torch's own. Torch itself records
        calls of `numpy()`, wherever they happen."""
        return not storage.resizable() or storage._cdata in self._storages

    def define(self, shadow: Arena) -> None:
        """Mark all exported memory of the arena as defined in its shadow."""
        self._forget(lambda reference, start, size: bool(reference.expired()))  # type: ignore[no-untyped-call]
        for _, start, size in self._storages.values():
            if 0 <= start < self._size:
                shadow.discard(start, size)  # zeros, at next to no cost however large a buffer is

    def forget(self, arrays: Iterable[ArraySpan]) -> None:
        """New arguments are in memory: exports of the previous ones do not apply to them."""
        starts = {span.start for span in arrays}
        self._forget(lambda reference, start, size: start in starts)

    def _forget(self, chosen: Callable[[StorageWeakRef, int, int], bool]) -> None:
        for key in [key for key, noted in self._storages.items() if chosen(*noted)]:
            del self._storages[key]

    def note(self, tensor: torch.Tensor) -> None:
        """The memory of a tensor has been exported."""
        if tensor.layout is not torch.strided:  # it has no storage
            return
        storage = storage_of(tensor)
        self._storages[storage._cdata] = (
            StorageWeakRef(storage),  # type: ignore[no-untyped-call]
            storage.data_ptr() - self._start,
            storage.nbytes(),
        )


@functools.cache
def _observe() -> None:
    """Have the methods report their calls, from now on in this process.

    Nothing else becomes slower by it. A `TorchFunctionMode` sees them as well, but it is called for every use of a
    tensor, each of its attributes included, and host code reads many of those."""
    for name in _WAYS_OUT:
        setattr(torch.Tensor, name, _observed(getattr(torch.Tensor, name)))


def _observed(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def reporting(self: torch.Tensor, *args: Any, **named: Any) -> Any:
        try:
            return method(self, *args, **named)
        finally:  # what `apply_` calls may raise after it has written
            if _entered:
                _entered[-1].note(self)

    return reporting


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage:
    """A tensor's storage, read without counting as an export."""
    return torch._C.TensorBase.untyped_storage(tensor)
