"""A host copy is what Python code of a target moves from tensor to tensor, beside its kernels.

While a case is shadowed, plain moves (copies, rows picked by an index) carry shadows along as kernels do: what was
undefined where it came from is undefined where it goes, also by way of tensors of the target's own outside of the
arena. Whatever else is written to a tensor is defined. Of what numpy and Python's own numbers do nobody tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.kernels.executors.base import Arena
from harness.kernels.executors.host_memory import HostArena

_WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Shadows are integers as wide as what they belong to."""

_ATEN = torch.ops.aten
_MOVES = {
    *(_ATEN.index_select.default, _ATEN.index_select.out, _ATEN.index.Tensor, _ATEN.gather.default),
    *(_ATEN.clone.default, _ATEN._to_copy.default),
}
"""Operations whose result is made of elements of their first argument, each left as it was or converted."""


_MOVE_NO_BYTES = ("aten::set_", "aten::resize_", "aten::as_strided_")
"""Operations that change what memory a tensor stands for, which counts as writing it."""


class HostCopies(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches torch while it is entered.

    `settle` is called before something undefined is noted in the arena: whoever takes all that is written for defined
    has to look before that.
    """

    def __init__(self, arena: HostArena, shadow: Arena, settle: Callable[[], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._start, self._size = arena.address - arena.raised_by, arena.size
        self._shadow, self._settle = shadow, settle
        self._elsewhere: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        """Tensors outside of the arena by the address of their storage, kept so that it stays theirs; and shadows."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        moves = func in _MOVES
        # Read before the operation: it may write where it reads.
        source = args[1] if func is _ATEN.copy_.default else args[0] if moves else None
        shadow = self._of(source) if isinstance(source, torch.Tensor) else None
        if shadow is not None:
            shadow = shadow.clone() if shadow.any() else None
        result = func(*args, **kwargs)
        if func is _ATEN.copy_.default:
            self._set(args[0], shadow)
        elif moves:
            self._set(result, None if shadow is None else self._moved(func, shadow, args[1:], kwargs))
        elif func._schema.name not in _MOVE_NO_BYTES:
            for argument, declared in zip(args, func._schema.arguments, strict=False):
                if declared.alias_info is not None and declared.alias_info.is_write and _is_dense(argument):
                    self._set(argument, None)
        return result

    def _moved(self, func: Any, shadow: torch.Tensor, others: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor:
        """The shadow of what an operation makes of the elements that `shadow` belongs to."""
        if func in (_ATEN.clone.default, _ATEN._to_copy.default):
            return shadow
        name = _ATEN.index_select.default if func is _ATEN.index_select.out else func
        moved: torch.Tensor = name(shadow, *others)
        return moved

    def _of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The shadow of a tensor, one integer for each element; None if all of it is defined."""
        if not _is_dense(tensor):
            return None
        start = tensor.untyped_storage().data_ptr()
        word = _WORDS[tensor.element_size()]
        offset = start - self._start
        if 0 <= offset < self._size:
            offset += int(tensor.storage_offset()) * tensor.element_size()
            return self._shadow.tensor(offset, _extent(tensor), word, tensor.shape, tensor.stride())
        kept = self._elsewhere.get(start)
        if kept is None:
            return None
        return kept[1].view(word).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def _set(self, tensor: torch.Tensor, shadow: torch.Tensor | None) -> None:
        """A tensor has been written, with elements that have this shadow."""
        if not _is_dense(tensor):
            return
        storage = tensor.untyped_storage()
        inside = 0 <= storage.data_ptr() - self._start < self._size
        if not inside and shadow is not None and storage.data_ptr() not in self._elsewhere:
            whole = torch.zeros(-(-storage.nbytes() // 8) * 8, dtype=torch.int8)
            self._elsewhere[storage.data_ptr()] = (tensor, whole)
        if inside and shadow is not None:
            self._settle()
        own = self._of(tensor)
        if own is None:
            return
        if shadow is None:
            own.zero_()
        else:
            own.copy_(shadow if shadow.dtype == own.dtype else -(shadow != 0).to(own.dtype))


def _is_dense(argument: Any) -> bool:
    return (
        isinstance(argument, torch.Tensor)
        and argument.layout is torch.strided
        and argument.device.type == "cpu"
        and argument.numel() > 0
        and argument.element_size() in _WORDS
    )


def _extent(tensor: torch.Tensor) -> int:
    """Bytes from a tensor's first element to behind its last."""
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return int(reach + 1) * tensor.element_size()
