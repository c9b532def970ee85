"""Integer arithmetic as on a GPU: everything wraps, and nothing traps.

Masked-off lanes are evaluated too, with any contents, so an instruction must not trap where a GPU's would not:
x86 traps on division by zero and on the smallest integer divided by -1. LLVM's flags that promise "no overflow" are
never emitted.
"""

from __future__ import annotations

from harness.kernels.executors.base import ExecutorCannot
from harness.kernels.executors.native.builder import Builder, literal
from harness.kernels.executors.native.types import Element, Float, Integer, Pointer

_PLAIN = {"addi": "add", "subi": "sub", "muli": "mul", "andi": "and", "ori": "or", "xori": "xor"}
_DIVISIONS = {"divsi": "sdiv", "remsi": "srem", "divui": "udiv", "remui": "urem"}
_SHIFTS = {"shli": "shl", "shrsi": "ashr", "shrui": "lshr"}
_CHOICES = {"minsi": "slt", "maxsi": "sgt", "minui": "ult", "maxui": "ugt"}


def integer_bits(element: Element, operation: str) -> int:
    """The width of an integer. Raises ExecutorCannot for floats and pointers."""
    if isinstance(element, Integer):
        return element.bits
    kind = f"the float type {element.name}" if isinstance(element, Float) else "pointers"
    raise ExecutorCannot(f"the native executor does not calculate {operation} on {kind}")


def binary(builder: Builder, kind: str, bits: int, left: str, right: str) -> str:
    """`arith.<kind>` of two `bits` wide operands."""
    llvm = f"i{bits}"
    if kind in _PLAIN:
        return builder.value(f"{_PLAIN[kind]} {llvm} {left}, {right}")
    if kind in _DIVISIONS:
        return _divide(builder, kind, bits, left, right)
    if kind in _SHIFTS:
        return _shift(builder, kind, bits, left, right)
    first = builder.value(f"icmp {_CHOICES[kind]} {llvm} {left}, {right}")
    return builder.value(f"select i1 {first}, {llvm} {left}, {llvm} {right}")


def _divide(builder: Builder, kind: str, bits: int, left: str, right: str) -> str:
    """Truncating division or its remainder. Division by zero is undefined in Triton; we divide by one instead.

    Dividing the smallest integer by 1 instead of -1 gives the wrapped result.
    """
    llvm, instruction = f"i{bits}", _DIVISIONS[kind]
    if literal(right) not in (None, 0, -1):
        return builder.value(f"{instruction} {llvm} {left}, {right}")
    unsafe = builder.value(f"icmp eq {llvm} {right}, 0")
    if kind in ("divsi", "remsi"):
        minus_one = builder.value(f"icmp eq {llvm} {right}, -1")
        smallest = builder.value(f"icmp eq {llvm} {left}, {-(1 << (bits - 1))}")
        unsafe = builder.value(f"or i1 {unsafe}, {builder.value(f'and i1 {minus_one}, {smallest}')}")
    divisor = builder.value(f"select i1 {unsafe}, {llvm} 1, {llvm} {right}")
    return builder.value(f"{instruction} {llvm} {left}, {divisor}")


def _shift(builder: Builder, kind: str, bits: int, left: str, right: str) -> str:
    """A shift. A shift by the width or more removes all bits, as on NVIDIA GPUs and in numpy; undefined in LLVM."""
    llvm, instruction = f"i{bits}", _SHIFTS[kind]
    amount = literal(right)
    if amount is not None and 0 <= amount < bits:
        return builder.value(f"{instruction} {llvm} {left}, {right}")
    far = builder.value(f"icmp uge {llvm} {right}, {bits}")
    if kind == "shrsi":
        amount_operand = builder.value(f"select i1 {far}, {llvm} {bits - 1}, {llvm} {right}")
        return builder.value(f"ashr {llvm} {left}, {amount_operand}")
    safe = builder.value(f"select i1 {far}, {llvm} 0, {llvm} {right}")
    shifted = builder.value(f"{instruction} {llvm} {left}, {safe}")
    return builder.value(f"select i1 {far}, {llvm} 0, {llvm} {shifted}")


def absolute(builder: Builder, bits: int, operand: str) -> str:
    """`math.absi`: the smallest integer is unchanged."""
    negative = builder.value(f"icmp slt i{bits} {operand}, 0")
    opposite = builder.value(f"sub i{bits} 0, {operand}")
    return builder.value(f"select i1 {negative}, i{bits} {opposite}, i{bits} {operand}")


def cast(builder: Builder, kind: str, source: Element, target: Element, operand: str) -> str:
    """`arith.<kind>` from one integer width to another; `bitcast` keeps the bits."""
    if kind == "bitcast":
        return operand
    before, after = integer_bits(source, kind), integer_bits(target, kind)
    if before == after:
        return operand
    if kind == "index_cast":
        kind = "extsi" if before < after else "trunci"
    instruction = {"extsi": "sext", "extui": "zext", "trunci": "trunc"}[kind]
    return builder.value(f"{instruction} i{before} {operand} to i{after}")


def add_pointer(builder: Builder, step: int, bits: int, address: str, offset: str) -> str:
    """`tt.addptr`: `address + offset * step` in 64 bits, the offset sign-extended first."""
    known = literal(offset)
    if known is not None:
        return builder.value(f"add i64 {address}, {known * step}")
    wide = offset if bits == 64 else builder.value(f"sext i{bits} {offset} to i64")
    scaled = wide if step == 1 else builder.value(f"mul i64 {wide}, {step}")
    return builder.value(f"add i64 {address}, {scaled}")


def pointer_step(element: Element) -> int:
    """Bytes from one pointee to the next. Raises ExecutorCannot for anything but a pointer."""
    if not isinstance(element, Pointer):
        raise ExecutorCannot("the native executor can add offsets only to pointers")
    return max(1, element.element.bits // 8)
