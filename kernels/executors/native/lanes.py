"""A lane is one element of a tensor. Here tensors are functions from a lane's index to code that computes it.

A tensor operation emits no code where it occurs; loads and stores emit a loop over lanes and evaluate in it what
they need, lane by lane. Only results of loads, and tensors that cross control flow, are kept in memory. So no
vector is ever 1024 wide, and the order of accesses stays that of the kernel.

A tracking builder gives every value a shadow: an integer as wide as the value in memory, in which the bits of undefined
bytes are set. Loads and stores copy shadows byte by byte; anything calculated from an undefined number is undefined as
a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
class LaneBuffer:
    """Stack memory for a tensor, and for its shadow if the builder tracks."""

    type: Tensor
    pointer: str
    shadow: str = ""


Index = tuple[str, ...]
"""One i64 operand for each dimension."""

_DEPTH_LIMIT = 48
"""Tensor expressions deeper than this are kept in memory, because they are evaluated by recursion."""


@dataclass(frozen=True, eq=False)
class Scalar:
    """One value: an LLVM operand, and that of its shadow; a value without a shadow is defined."""

    element: Element
    operand: str
    shadow: str = ""


@dataclass(frozen=True, eq=False)
class Lanes:
    """A tensor: `compute(index)` emits the code for one lane and returns its operand.

    `depth` is the nesting depth of its tensor expression; `buffer` is its memory, if it has any; `progression`
    and `prefix` are what is known about it; `shadow(index)` emits the shadow of one lane, without it all are defined.
    """

    shape: tuple[int, ...]
    element: Element
    compute: Callable[[Index], str]
    depth: int = 0
    buffer: LaneBuffer | None = None
    progression: Progression | None = None
    prefix: Prefix | None = None
    shadow: Callable[[Index], str] | None = None


Value = Scalar | Lanes


class LaneBuilder(Builder):
    """A builder for lanes. `tracking`: whether values have shadows."""

    def __init__(self, *, tracking: bool = False) -> None:
        super().__init__()
        self.tracking = tracking

    def lane(self, value: Value, index: Index) -> str:
        """The operand of one lane; a scalar is the same for all."""
        if isinstance(value, Scalar):
            return value.operand
        return self.once((value, index), lambda: value.compute(index))

    def elementwise(
        self,
        type_: Type,
        compute: Callable[..., str],
        *values: Value,
        shadow: Callable[[Index], str] | None = None,
    ) -> Value:
        """The value with lanes `compute(*lanes of values)`; computed at once for scalars. `shadow` as in `lazy`."""
        if shape_of(type_) is not None:
            return self.lazy(
                type_, lambda index: compute(*(self.lane(value, index) for value in values)), *values, shadow=shadow
            )
        element = element_of(type_)
        operand = compute(*(self.lane(value, ()) for value in values))
        if shadow is not None and self.tracks(values):
            return Scalar(element, operand, shadow(()))
        return Scalar(element, operand, self.joined(element, values, ()))

    def tracks(self, values: Sequence[Value]) -> bool:
        """Whether any of the values may be undefined."""
        return self.tracking and any(_may_be_undefined(value) for value in values)

    def shadow(self, value: Value | None, index: Index) -> str:
        """The operand of one lane's shadow; empty if the lane is defined."""
        if value is None:
            return ""
        if isinstance(value, Scalar):
            return value.shadow
        shadow = value.shadow
        return "" if shadow is None else self.once(("shadow", value, index), lambda: shadow(index))

    def joined(self, element: Element, values: Sequence[Value], index: Index) -> str:
        """The shadow of a result of type `element` calculated from `values`: set as a whole if any of theirs is set."""
        undefined = ""
        for value in values:
            shadow = self.shadow(value, index)
            if not shadow:
                continue
            some = self.value(f"icmp ne {stored_llvm(value.element)} {shadow}, 0")
            undefined = self.value(f"or i1 {undefined}, {some}") if undefined else some
        return self.value(f"sext i1 {undefined} to {stored_llvm(element)}") if undefined else ""

    def lazy(
        self,
        type_: Type,
        compute: Callable[[Index], str],
        *sources: Value,
        shadow: Callable[[Index], str] | None = None,
    ) -> Lanes:
        """The tensor with lanes `compute(index)`, which reads lanes of `sources`.

        Its shadow, if not given, is that of the sources.
        """
        assert isinstance(type_, Tensor)
        tensors = [source for source in sources if isinstance(source, Lanes)]
        depth = 1 + max((tensor.depth for tensor in tensors), default=0)
        if not self.tracks(sources):
            shadow = None
        elif shadow is None:

            def shadow(index: Index) -> str:
                return self.joined(type_.element, sources, index) or "0"

        lanes = Lanes(type_.shape, type_.element, compute, depth, shadow=shadow)
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
        """The index of the lane with this number."""
        index: list[str] = []
        for size in reversed(shape):
            if size == 1:
                index.append("0")
                continue
            index.append(self.value(f"urem i64 {number}, {size}"))
            number = self.value(f"udiv i64 {number}, {size}")
        return tuple(reversed(index))

    def buffer(self, type_: Tensor) -> LaneBuffer:
        """New memory for a tensor of this type."""
        llvm = stored_llvm(type_.element)
        return LaneBuffer(type_, self.slot(llvm, type_.lanes), self.slot(llvm, type_.lanes) if self.tracking else "")

    def put(self, buffer: LaneBuffer, index: Index, operand: str, shadow: str = "") -> None:
        """Emit the store of one lane."""
        llvm = stored_llvm(buffer.type.element)
        pointer = self._place(buffer, index)
        self.effect(f"store {llvm} {self.to_stored(buffer.type.element, operand)}, ptr {pointer}")
        if buffer.shadow:
            self.effect(f"store {llvm} {shadow or '0'}, ptr {self._place(buffer, index, buffer.shadow)}")

    def clear(self, buffer: LaneBuffer, first: str) -> None:
        """Zero the lanes from number `first` on, an i64 operand of at most the number of lanes."""
        size = stored_bytes(buffer.type.element)
        lanes = self.value(f"sub i64 {buffer.type.lanes}, {first}")
        bytes_ = self.value(f"mul i64 {lanes}, {size}")
        for pointer in filter(None, (buffer.pointer, buffer.shadow)):
            place = self.value(f"getelementptr {stored_llvm(buffer.type.element)}, ptr {pointer}, i64 {first}")
            self.effect(f"call void @llvm.memset.p0.i64(ptr {place}, i8 0, i64 {bytes_}, i1 false)")

    def kept(self, buffer: LaneBuffer) -> Lanes:
        """The tensor in the buffer."""
        element = buffer.type.element
        llvm = stored_llvm(element)

        def compute(index: Index) -> str:
            operand = self.value(f"load {llvm}, ptr {self._place(buffer, index)}")
            return self.from_stored(element, operand)

        def shadow(index: Index) -> str:
            return self.value(f"load {llvm}, ptr {self._place(buffer, index, buffer.shadow)}")

        return Lanes(buffer.type.shape, element, compute, buffer=buffer, shadow=shadow if buffer.shadow else None)

    def keep(self, buffer: LaneBuffer, value: Value) -> None:
        """Store all lanes of `value`."""
        self.each_lane(
            buffer.type.shape,
            lambda index: self.put(buffer, index, self.lane(value, index), self.shadow(value, index)),
        )

    def to_stored(self, element: Element, operand: str) -> str:
        """The operand as it is stored in memory: booleans take a byte."""
        return self.value(f"zext i1 {operand} to i8") if element == Integer(1) else operand

    def from_stored(self, element: Element, operand: str) -> str:
        """The inverse of `to_stored`."""
        return self.value(f"trunc i8 {operand} to i1") if element == Integer(1) else operand

    def _place(self, buffer: LaneBuffer, index: Index, pointer: str = "") -> str:
        number = self.linear(buffer.type.shape, index)
        base = pointer or buffer.pointer
        return self.value(f"getelementptr {stored_llvm(buffer.type.element)}, ptr {base}, i64 {number}")


def _may_be_undefined(value: Value) -> bool:
    return bool(value.shadow) if isinstance(value, Scalar) else value.shadow is not None


def _sum(builder: Builder, left: str, right: str) -> str:
    if literal(left) == 0:
        return right
    if literal(right) == 0:
        return left
    return builder.value(f"add i64 {left}, {right}")
