"""The types of TTIR values: integers, floats carried as their bits, pointers, and tensors of these.

Everything that the emitter needs to know about a type is here: its width, its form in memory, its name in LLVM.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from harness.kernels.executors.base import ExecutorCannot


@dataclass(frozen=True)
class Integer:
    """A signless integer of `bits` bits; `index` values are 64 bits wide."""

    bits: int

    @property
    def llvm(self) -> str:
        return f"i{self.bits}"


@dataclass(frozen=True)
class Float:
    """A floating-point number. It is moved as its bits (an integer of the same width), never calculated with."""

    name: str
    bits: int

    @property
    def llvm(self) -> str:
        return f"i{self.bits}"


@dataclass(frozen=True)
class Pointer:
    """An address of device memory, here a plain 64-bit integer, with the type of its pointee."""

    element: Integer | Float

    @property
    def llvm(self) -> str:
        return "i64"


Element = Integer | Float | Pointer


@dataclass(frozen=True)
class Tensor:
    """A block of `shape` elements; in Triton every dimension is a power of two, but nothing here relies on that."""

    shape: tuple[int, ...]
    element: Element

    @property
    def lanes(self) -> int:
        count = 1
        for dimension in self.shape:
            count *= dimension
        return count


Type = Element | Tensor

_FLOAT_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "f8E4M3FN": 8, "f8E5M2": 8}


def stored_bytes(element: Element) -> int:
    """Bytes of one element in memory. Booleans take one."""
    if isinstance(element, Pointer):
        return 8
    return max(1, element.bits // 8)


def stored_llvm(element: Element) -> str:
    """LLVM's type of one element in memory: like the value's, but a byte for booleans."""
    return f"i{8 * stored_bytes(element)}"


@functools.lru_cache(maxsize=1024)
def parse_type(text: str) -> Type:
    """The type that `text` spells. Raises ExecutorCannot for any other kind of type."""
    tensor = re.fullmatch(r"tensor<((?:\d+x)+)([^,]+)>", text)
    if tensor:
        shape = tuple(int(dimension) for dimension in tensor[1].rstrip("x").split("x"))
        return Tensor(shape, _parse_element(tensor[2]))
    return _parse_element(text)


def _parse_element(text: str) -> Element:
    pointer = re.fullmatch(r"!tt\.ptr<([^,]+)(?:, 1)?>", text)
    if pointer:
        element = _parse_element(pointer[1])
        if isinstance(element, Pointer):
            raise ExecutorCannot(f"the native executor has no pointers to pointers ({text})")
        return Pointer(element)
    if text == "index":
        return Integer(64)
    integer = re.fullmatch(r"i(\d+)", text)
    if integer and int(integer[1]) in (1, 8, 16, 32, 64):
        return Integer(int(integer[1]))
    if text in _FLOAT_BITS:
        return Float(text, _FLOAT_BITS[text])
    raise ExecutorCannot(f"the native executor has no type {text}")


def element_of(type_: Type) -> Element:
    """The type of one lane; of a scalar, the type itself."""
    return type_.element if isinstance(type_, Tensor) else type_


def shape_of(type_: Type) -> tuple[int, ...] | None:
    """The shape of a tensor, None for a scalar."""
    return type_.shape if isinstance(type_, Tensor) else None
