"""A host copy is a move from tensor to tensor by Python code of a target, in addition to its kernels.

While a case is shadowed, plain moves (copies, rows picked by an index) propagate shadows as kernels do: what is
undefined at the source is undefined at the destination, also through the target's own tensors outside of the arena.
Every other tensor that an operation may write according to its schema is defined afterwards, in any argument position.
What numpy and Python's own numbers do is not observed: what numpy can write is defined (harness.check.exported_memory).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.check.exported_memory import ExportedMemory, storage_of
from harness.kernels.executors.base import Arena
from harness.kernels.executors.host_memory import HostArena

_WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Shadows are integers as wide as what they belong to."""

_ATEN = torch.ops.aten


class _Move(NamedTuple):
    """An operation that takes elements of its argument `source`, unchanged or converted, and puts them into what it
    writes, or else into its result. `pick` does to a shadow what the operation does, with its arguments `others`;
    None: every element keeps its position."""

    source: str
    pick: Any = None
    others: tuple[str, ...] = ()


_INDEX_SELECT = _Move("self", _ATEN.index_select.default, ("dim", "index"))
_INDEX = _Move("self", _ATEN.index.Tensor, ("indices",))
_GATHER = _Move("self", _ATEN.gather.default, ("dim", "index"))
_MOVES = {
    _ATEN.copy_.default: _Move("src"),
    _ATEN.clone.default: _Move("self"),
    _ATEN._to_copy.default: _Move("self"),
    _ATEN.index_select.default: _INDEX_SELECT,
    _ATEN.index_select.out: _INDEX_SELECT,
    _ATEN.index.Tensor: _INDEX,
    _ATEN.index.Tensor_out: _INDEX,
    _ATEN.gather.default: _GATHER,
    _ATEN.gather.out: _GATHER,
}


class HostCopies(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches torch while it is entered.

    `settle` is called before something undefined is recorded in the arena: code that takes everything written for
    defined has to look before that.
    """

    def __init__(self, arena: HostArena, shadow: Arena, exported: ExportedMemory, settle: Callable[[], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._start, self._size = arena.address - arena.raised_by, arena.size
        self._shadow, self._exported, self._settle = shadow, exported, settle
        self._elsewhere: dict[int, tuple[torch.UntypedStorage, torch.Tensor]] = {}
        """Storages outside of the arena and their shadows, by identity; kept, so that no other storage gets it."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        move = _MOVES.get(func)
        given, written = _arguments(func, args, kwargs)
        # Read before the operation: it may write where it reads.
        shadow = None if move is None else self._moved(move, given)
        result = func(*args, **kwargs)
        for tensor in _tensors(written if written or move is None else result):
            self._set(tensor, shadow)
        return result

    def _moved(self, move: _Move, given: Mapping[str, Any]) -> torch.Tensor | None:
        """The shadow of the result of a move; None if all of it is defined."""
        self._exported.define(self._shadow)
        shadow = self._of(given[move.source])
        if shadow is None or not shadow.any():
            return None
        if move.pick is None:
            return shadow.clone()
        picked: torch.Tensor = move.pick(shadow, *(given[name] for name in move.others))
        return picked

    def _of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The shadow of a tensor, one integer for each element; None if all of it is defined."""
        if not _is_dense(tensor):
            return None
        storage = storage_of(tensor)
        word = _WORDS[tensor.element_size()]
        offset = storage.data_ptr() - self._start
        if 0 <= offset < self._size:
            offset += int(tensor.storage_offset()) * tensor.element_size()
            return self._shadow.tensor(offset, _extent(tensor), word, tensor.shape, tensor.stride())
        kept = self._elsewhere.get(storage._cdata)
        if kept is None or self._exported.holds(storage):
            return None
        whole = kept[1]
        if len(whole) < storage.nbytes():  # it has grown
            whole = torch.cat([whole, _defined(storage.nbytes() - len(whole))])
            self._elsewhere[storage._cdata] = (storage, whole)
        return whole.view(word).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def _set(self, tensor: torch.Tensor, shadow: torch.Tensor | None) -> None:
        """Record that a tensor has been written, with elements that have this shadow."""
        if not _is_dense(tensor):
            return
        storage = storage_of(tensor)
        inside = 0 <= storage.data_ptr() - self._start < self._size
        if not inside and shadow is not None and storage._cdata not in self._elsewhere:
            self._elsewhere[storage._cdata] = (storage, _defined(storage.nbytes()))
        if inside and shadow is not None:
            self._settle()
        own = self._of(tensor)
        if own is None:
            return
        if shadow is None:
            own.zero_()
        else:
            own.copy_(shadow if shadow.dtype == own.dtype else -(shadow != 0).to(own.dtype))


def _arguments(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The arguments of an operation by name, and those that it may write: all of them, if its schema does not say."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return dict(kwargs), [*args, *kwargs.values()]
    given = dict(zip((declared.name for declared in schema.arguments), args, strict=False)) | dict(kwargs)
    if torch.Tag.inplace_view in func.tags:
        # The schemas of `set_`, `resize_`, `t_` and similar ones say that the tensor is written, but what changes is
        # the memory it refers to. Shadows belong to memory, and no byte of that has changed.
        return given, []
    return given, [
        given[declared.name]
        for declared in schema.arguments
        if declared.name in given and declared.alias_info is not None and declared.alias_info.is_write
    ]


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    """All tensors in a value, however it is nested."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, Mapping):
        for value in values.values():
            yield from _tensors(value)
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _tensors(value)


def _defined(size: int) -> torch.Tensor:
    """A shadow of `size` bytes that are defined, a whole number of the longest words."""
    return torch.zeros(-(-size // 8) * 8, dtype=torch.int8)


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
