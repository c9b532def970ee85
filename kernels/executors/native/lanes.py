"""A lane is one element of a tensor. Here tensors are functions from a lane's index to code that computes it.

Nothing is computed where a tensor operation stands; loads and stores run a loop over lanes and evaluate there what
they need, lane by lane. Only results of loads, and tensors that cross control flow, are kept in memory. So no
vector is ever 1024 wide, and the order of accesses stays that of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from harness.kernels.executors.native.builder import Builder, literal
from harness.kernels.executors.native.progressions import Prefix, Progression
from harness.kernels.executors.native.types import (
    Element,
    Integer,
    Tensor,
    Type,
    element_of,
    shape_of,
    stored_bytes,
    stored_llvm,
)


@dataclass(frozen=True, eq=False)
class Buffer:
    """Stack memory for a tensor."""

    type: Tensor
    pointer: str


Index = tuple[str, ...]
"""One i64 operand for each dimension."""

_DEPTH_LIMIT = 48
"""Tensor expressions deeper than this are kept in memory: they are evaluated by recursion."""


@dataclass(frozen=True, eq=False)
class Scalar:
    """One value: an LLVM operand."""

    element: Element
    operand: str


@dataclass(frozen=True, eq=False)
class Lanes:
    """A tensor: `compute(index)` writes the code for one lane and gives its operand.

    `depth` counts how deep tensors are nested in it; `buffer` is the memory it lies in, if it does; `progression`
    and `prefix` are what is known of it.
    """

    shape: tuple[int, ...]
    element: Element
    compute: Callable[[Index], str]
    depth: int = 0
    buffer: Buffer | None = None
    progression: Progression | None = None
    prefix: Prefix | None = None


Value = Scalar | Lanes


class LaneBuilder(Builder):
    """A builder that knows lanes."""

    def lane(self, value: Value, index: Index) -> str:
        """The operand of one lane; a scalar is the same in all."""
        if isinstance(value, Scalar):
            return value.operand
        return self.once((value, index), lambda: value.compute(index))

    def elementwise(self, type_: Type, compute: Callable[..., str], *values: Value) -> Value:
        """The value whose lanes are `compute(*lanes of values)`; of scalars, at once."""
        if shape_of(type_) is None:
            return Scalar(element_of(type_), compute(*(self.lane(value, ()) for value in values)))
        return self.lazy(type_, lambda index: compute(*(self.lane(value, index) for value in values)), *values)

    def lazy(self, type_: Type, compute: Callable[[Index], str], *sources: Value) -> Lanes:
        """The tensor with lanes `compute(index)`, which reads lanes of `sources`."""
        assert isinstance(type_, Tensor)
        tensors = [source for source in sources if isinstance(source, Lanes)]
        depth = 1 + max((tensor.depth for tensor in tensors), default=0)
        lanes = Lanes(type_.shape, type_.element, compute, depth)
        return lanes if depth <= _DEPTH_LIMIT else self.in_memory(lanes)

    def in_memory(self, lanes: Lanes) -> Lanes:
        """The same tensor, computed here and kept in memory."""
        buffer = self.buffer(Tensor(lanes.shape, lanes.element))
        self.keep(buffer, lanes)
        return replace(self.kept(buffer), progression=lanes.progression, prefix=lanes.prefix)

    def each_lane(self, shape: tuple[int, ...], body: Callable[[Index], None], count: str | None = None) -> None:
        """Run `body(index)` for every lane, the last dimension fastest; in one dimension for the first `count`."""
        if count is not None:
            self.loop(count, lambda index: body((index,)))
            return

        def dimension(outer: Index) -> None:
            if len(outer) == len(shape):
                body(outer)
            elif shape[len(outer)] == 1:
                dimension((*outer, "0"))
            else:
                self.loop(str(shape[len(outer)]), lambda index: dimension((*outer, index)))

        with self.scope():
            dimension(())

    def linear(self, shape: tuple[int, ...], index: Index) -> str:
        """The lane's number: its position in row-major order, an i64 operand."""

        def compute() -> str:
            number = "0"
            for size, position in zip(shape, index, strict=True):
                scaled = "0" if number == "0" else self.value(f"mul i64 {number}, {size}")
                number = _sum(self, scaled, position)
            return number

        return self.once(("linear", shape, index), compute)

    def from_linear(self, shape: tuple[int, ...], number: str) -> Index:
        """The index of the lane with that number."""
        index: list[str] = []
        for size in reversed(shape):
            if size == 1:
                index.append("0")
                continue
            index.append(self.value(f"urem i64 {number}, {size}"))
            number = self.value(f"udiv i64 {number}, {size}")
        return tuple(reversed(index))

    def buffer(self, type_: Tensor) -> Buffer:
        """New memory for a tensor of this type."""
        return Buffer(type_, self.slot(stored_llvm(type_.element), type_.lanes))

    def put(self, buffer: Buffer, index: Index, operand: str) -> None:
        """Write one lane."""
        llvm = stored_llvm(buffer.type.element)
        pointer = self._place(buffer, index)
        self.effect(f"store {llvm} {self.to_stored(buffer.type.element, operand)}, ptr {pointer}")

    def clear(self, buffer: Buffer, first: str) -> None:
        """Zero the lanes from number `first` on, an i64 operand of at most all lanes."""
        size = stored_bytes(buffer.type.element)
        place = self.value(f"getelementptr {stored_llvm(buffer.type.element)}, ptr {buffer.pointer}, i64 {first}")
        lanes = self.value(f"sub i64 {buffer.type.lanes}, {first}")
        self.effect(
            f"call void @llvm.memset.p0.i64(ptr {place}, i8 0, i64 {self.value(f'mul i64 {lanes}, {size}')}, i1 false)"
        )

    def kept(self, buffer: Buffer) -> Lanes:
        """The tensor that lies in the buffer."""
        element = buffer.type.element
        llvm = stored_llvm(element)

        def compute(index: Index) -> str:
            operand = self.value(f"load {llvm}, ptr {self._place(buffer, index)}")
            return self.from_stored(element, operand)

        return Lanes(buffer.type.shape, element, compute, buffer=buffer)

    def keep(self, buffer: Buffer, value: Value) -> None:
        """Write all lanes of `value`."""
        self.each_lane(buffer.type.shape, lambda index: self.put(buffer, index, self.lane(value, index)))

    def to_stored(self, element: Element, operand: str) -> str:
        """The operand as it lies in memory: booleans take a byte."""
        return self.value(f"zext i1 {operand} to i8") if element == Integer(1) else operand

    def from_stored(self, element: Element, operand: str) -> str:
        """The opposite of `to_stored`."""
        return self.value(f"trunc i8 {operand} to i1") if element == Integer(1) else operand

    def _place(self, buffer: Buffer, index: Index) -> str:
        number = self.linear(buffer.type.shape, index)
        return self.value(f"getelementptr {stored_llvm(buffer.type.element)}, ptr {buffer.pointer}, i64 {number}")


def _sum(builder: Builder, left: str, right: str) -> str:
    if literal(left) == 0:
        return right
    if literal(right) == 0:
        return left
    return builder.value(f"add i64 {left}, {right}")
