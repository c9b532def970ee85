"""Exported memory is memory that host code of a target has passed to numpy, DLPack, or a bare storage.

From then on it can be written without torch, which is not observed: it counts as defined as long as the tensor or such
a view of it exists. So a stale number that host code has read through numpy is no longer found: that is the price of
no false alarms. (Targets do not read device memory that way; buffers of the host lie outside.)

A bare address does not count as an export, although it could be written through: kernels get every tensor that way, and
all of them would count as defined. Nor does the old `torch.utils.dlpack.to_dlpack`, which cannot be observed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode

from harness.kernels.executors.base import Arena
from harness.kernels.executors.host_memory import HostArena
from harness.memory import ArraySpan

_WAYS_OUT = {
    *(torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.__dlpack__),
    *(torch.Tensor.untyped_storage, torch.Tensor.storage, torch.Tensor._typed_storage),
    *(torch.Tensor.apply_, torch.Tensor.map_, torch.Tensor.map2_, torch.Tensor.share_memory_),
}
"""Methods after which a tensor's memory may be written unobserved, or, for `apply_` and similar ones, has been."""


class ExportedMemory(TorchFunctionMode):
    """Records which memory is exported while it is entered; the records stay valid afterwards."""

    def __init__(self, arena: Arena) -> None:
        super().__init__()
        raised_by = arena.raised_by if isinstance(arena, HostArena) else 0
        self._start, self._size = arena.address - raised_by, arena.size
        self._storages: dict[int, tuple[StorageWeakRef, int, int]] = {}
        """By identity, which no other storage gets while a reference is kept: with arena offset and size."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _WAYS_OUT and args and isinstance(args[0], torch.Tensor) and args[0].layout is torch.strided:
            self._note(storage_of(args[0]))
        return result

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

    def _note(self, storage: torch.UntypedStorage) -> None:
        self._storages[storage._cdata] = (
            StorageWeakRef(storage),  # type: ignore[no-untyped-call]
            storage.data_ptr() - self._start,
            storage.nbytes(),
        )


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage:
    """A tensor's storage, read without counting as an export."""
    with torch._C.DisableTorchFunction():
        return tensor.untyped_storage()
