"""Recognition finds out which tensors of a kernel are progressions and which masks are prefixes."""

from __future__ import annotations

from dataclasses import replace

from harness.kernels.executors.native import progressions
from harness.kernels.executors.native.arithmetic import pointer_step
from harness.kernels.executors.native.builder import Builder, literal
from harness.kernels.executors.native.ir import Operation
from harness.kernels.executors.native.lanes import Lanes, Scalar, Value
from harness.kernels.executors.native.progressions import Progression
from harness.kernels.executors.native.types import Element, Float, Integer

_MIRRORED = {"sgt": True, "slt": False}


def recognised(builder: Builder, operation: Operation, operands: list[Value], result: Value) -> Value:
    """`result`, with what is known about it."""
    if not isinstance(result, Lanes) or len(result.shape) != 1:
        return result
    if operation.name == "arith.cmpi" and operation.attributes["predicate"] in _MIRRORED:
        left, right = (_progression(operand) for operand in operands)
        if _MIRRORED[str(operation.attributes["predicate"])]:
            left, right = right, left
        if left is None or right is None:
            return result
        return replace(result, prefix=progressions.below(builder, left, right))
    return replace(result, progression=_found(builder, operation, operands, result))


def _found(builder: Builder, operation: Operation, operands: list[Value], result: Lanes) -> Progression | None:
    (lanes,) = result.shape
    bits = _bits(result.element)
    if bits is None:
        return None
    name = operation.name
    if name == "tt.make_range":
        return progressions.counting(lanes, int(operation.attributes["start"]))
    if name == "arith.constant":
        value = int(operation.attributes["value"])
        return progressions.constant(lanes, bits, str(value), value)
    if name == "tt.splat":
        (scalar,) = operands
        assert isinstance(scalar, Scalar)
        return progressions.constant(lanes, bits, scalar.operand, literal(scalar.operand))
    if not operands or (first := _progression(operands[0])) is None:
        return None
    if name == "arith.extsi":
        return progressions.sign_extended(builder, first, bits)
    if name in ("tt.int_to_ptr", "tt.ptr_to_int", "tt.bitcast"):
        return first
    if len(operands) != 2 or (second := _progression(operands[1])) is None:
        return None
    if name in ("arith.addi", "arith.subi"):
        return progressions.combined(builder, name.removeprefix("arith."), first, second)
    if name == "tt.addptr":
        return progressions.stepped(builder, first, second, pointer_step(result.element))
    return None


def _progression(value: Value) -> Progression | None:
    return value.progression if isinstance(value, Lanes) else None


def _bits(element: Element) -> int | None:
    if isinstance(element, Float):
        return None
    return element.bits if isinstance(element, Integer) else 64
