"""A progression is a one-dimensional tensor whose lanes are `first + lane * step`; a prefix is a mask that allows only
its first lanes.

Copy kernels consist of them: consecutive addresses, masked by `offset < size`. Recognising both turns a loop over lanes
into one test and one block move. What is recorded here holds exactly, wrapping included; what is not known to hold is
not recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.kernels.executors.native import arithmetic
from harness.kernels.executors.native.builder import Builder


@dataclass(frozen=True, eq=False)
class Progression:
    """Lane `i` of `lanes` is `first() + i * step` in `bits` bits.

    `first` emits code, its operand is a scalar; `known` is that scalar where it is a constant.
    """

    lanes: int
    bits: int
    first: Callable[[], str]
    step: int
    known: int | None = None


@dataclass(frozen=True, eq=False)
class Prefix:
    """Lanes below `count()`, an i64 operand, are allowed. It holds if `guard()`, an i1 operand, does; None: always."""

    count: Callable[[], str]
    guard: Callable[[], str] | None


def counting(lanes: int, start: int) -> Progression:
    """`tt.make_range`."""
    return Progression(lanes, 32, lambda: str(start), 1, start)


def constant(lanes: int, bits: int, operand: str, known: int | None) -> Progression:
    """The same number in all lanes."""
    return Progression(lanes, bits, lambda: operand, 0, known)


def combined(builder: Builder, kind: str, left: Progression, right: Progression) -> Progression | None:
    """`arith.<kind>` of two progressions, if the result is one."""
    if kind not in ("addi", "subi"):
        return None
    step = left.step + right.step if kind == "addi" else left.step - right.step

    def first() -> str:
        return arithmetic.binary(builder, kind, left.bits, left.first(), right.first())

    return Progression(left.lanes, left.bits, first, step)


def sign_extended(builder: Builder, source: Progression, bits: int) -> Progression | None:
    """`source` in more bits, if its lanes are known not to wrap around in their own width."""
    if bits == source.bits:
        return source
    if not _stays_in_range(source):
        return None
    if source.known is not None:
        return Progression(source.lanes, bits, source.first, source.step, source.known)
    return Progression(
        source.lanes,
        bits,
        lambda: builder.value(f"sext i{source.bits} {source.first()} to i{bits}"),
        source.step,
    )


def stepped(builder: Builder, pointer: Progression, offset: Progression, size: int) -> Progression | None:
    """`tt.addptr` of progressions; `size` bytes per pointee."""
    wide = sign_extended(builder, offset, 64)
    if wide is None:
        return None
    return Progression(
        pointer.lanes,
        64,
        lambda: arithmetic.add_pointer(builder, size, 64, pointer.first(), wide.first()),
        pointer.step + wide.step * size,
    )


def below(builder: Builder, left: Progression, right: Progression) -> Prefix | None:
    """The mask `left < right` (signed), if left counts up by one and right is the same in all lanes."""
    if left.step != 1 or right.step != 0:
        return None
    llvm, lanes = f"i{left.bits}", left.lanes

    def count() -> str:
        first, bound = left.first(), right.first()
        some = builder.value(f"icmp slt {llvm} {first}, {bound}")
        # Where the first lane is below the bound, the difference is right as an unsigned number.
        difference = builder.value(f"sub {llvm} {bound}, {first}")
        if left.bits < 64:
            difference = builder.value(f"zext {llvm} {difference} to i64")
        few = builder.value(f"icmp ult i64 {difference}, {lanes}")
        capped = builder.value(f"select i1 {few}, i64 {difference}, i64 {lanes}")
        return builder.value(f"select i1 {some}, i64 {capped}, i64 0")

    def guard() -> str:
        highest = (1 << (left.bits - 1)) - lanes
        return builder.value(f"icmp sle {llvm} {left.first()}, {highest}")

    return Prefix(count, None if _stays_in_range(left) else guard)


def _stays_in_range(progression: Progression) -> bool:
    if progression.step == 0:
        return True
    if progression.known is None:
        return False
    last = progression.known + (progression.lanes - 1) * progression.step
    limit = 1 << (progression.bits - 1)
    return -limit <= min(progression.known, last) and max(progression.known, last) < limit
