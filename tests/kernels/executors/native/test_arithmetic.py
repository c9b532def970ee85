"""Integer arithmetic of compiled kernels against numpy and Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

DTYPES = {
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "uint16": torch.uint16,
    "uint32": torch.uint32,
    "uint64": torch.uint64,
}
FULL = ["int32", "int64", "uint32", "uint64"]
# In the order in which the kernels store their results.
OPERATIONS = ["add", "sub", "mul", "div", "rem", "and", "or", "xor", "shl", "shr", "min", "max", "lt", "ge", "where"]


def operands(name: str) -> list[tuple[int, int]]:
    low, high = int(np.iinfo(name).min), int(np.iinfo(name).max)
    edges = [low, low + 1, 0, 1, 2, 3, 7, high // 3, high - 1, high, *([-1, -2, -7] if low < 0 else [])]
    return [(a, b) for a in edges for b in edges]


def truncated_quotient(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def expected(operation: str, a: int, b: int) -> int:
    results: dict[str, Any] = {
        "add": lambda: a + b,
        "sub": lambda: a - b,
        "mul": lambda: a * b,
        "div": lambda: truncated_quotient(a, b),
        "rem": lambda: a - b * truncated_quotient(a, b),
        "and": lambda: a & b,
        "or": lambda: a | b,
        "xor": lambda: a ^ b,
        "shl": lambda: a << b,
        "shr": lambda: a >> b,
        "min": lambda: min(a, b),
        "max": lambda: max(a, b),
        "lt": lambda: int(a < b),
        "ge": lambda: int(a >= b),
        "where": lambda: a if a != b else b + 1,
    }
    return int(results[operation]())


def wrapped(value: int, name: str) -> int:
    bits = np.iinfo(name).bits
    value &= (1 << bits) - 1
    return value - (1 << bits) if name.startswith("i") and value >> (bits - 1) else value


def defined(operation: str, name: str, b: int) -> bool:
    """Whether Triton defines the result."""
    if operation in ("div", "rem"):
        return b != 0
    return operation not in ("shl", "shr") or 0 <= b < np.iinfo(name).bits


@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize("kernel", ["every_operation", "every_scalar_operation"])
def test_tensors_and_scalars_calculate_like_python(bench: Any, kernel: str, name: str) -> None:
    pairs = operands(name)
    left = bench.put([a for a, _ in pairs], DTYPES[name])
    right = bench.put([b for _, b in pairs], DTYPES[name])
    out = bench.put([[0] * len(pairs)] * len(OPERATIONS), DTYPES[name])
    if kernel == "every_operation":
        bench.kernels.every_operation[(1,)](left, right, out, len(pairs), BLOCK=256)
    else:
        bench.kernels.every_scalar_operation[(len(pairs),)](left, right, out, len(pairs))
    for operation, results in zip(OPERATIONS, out.tolist(), strict=True):
        checked = [i for i, (_, b) in enumerate(pairs) if defined(operation, name, b)]
        assert len(checked) > len(pairs) // 3
        want = [wrapped(expected(operation, *pairs[i]), name) for i in checked]
        assert [results[i] for i in checked] == want, operation


@pytest.mark.parametrize("name", DTYPES)
def test_narrow_types_wrap(bench: Any, name: str) -> None:
    pairs = operands(name)
    left = bench.put([a for a, _ in pairs], DTYPES[name])
    right = bench.put([b for _, b in pairs], DTYPES[name])
    out = bench.put([0] * len(pairs), DTYPES[name])
    bench.kernels.binary[(1,)](left, right, out, len(pairs), OP="mul", BLOCK=256)
    assert out.tolist() == [wrapped(a * b, name) for a, b in pairs]


def test_division_by_zero_and_overflow_do_not_trap(bench: Any) -> None:
    lowest = -(1 << 31)
    left = bench.put([lowest, 5, lowest, -7], torch.int32)
    right = bench.put([-1, 0, 0, 0], torch.int32)
    out = bench.put([9] * 4, torch.int32)
    bench.kernels.binary[(1,)](left, right, out, 4, OP="div", BLOCK=4)
    assert out[0] == lowest
    bench.kernels.binary[(1,)](left, right, out, 4, OP="rem", BLOCK=4)
    assert out[0] == 0


def test_masked_off_lanes_that_would_divide_by_zero_do_not_trap(bench: Any) -> None:
    left = bench.put([8, 9, 0, 0], torch.int32)
    right = bench.put([2, 3, 0, 0], torch.int32)
    out = bench.put([-1] * 4, torch.int32)
    bench.kernels.binary[(1,)](left, right, out, 2, OP="div", BLOCK=4)
    assert out.tolist() == [4, 3, -1, -1]


def test_shifts_by_the_width_or_more_shift_everything_out(bench: Any) -> None:
    left = bench.put([-5, 5, -5, 5], torch.int32)
    right = bench.put([32, 32, 1000, 1000], torch.int32)
    out = bench.put([9] * 4, torch.int32)
    bench.kernels.binary[(1,)](left, right, out, 4, OP="shl", BLOCK=4)
    assert out.tolist() == [0, 0, 0, 0]
    bench.kernels.binary[(1,)](left, right, out, 4, OP="shr", BLOCK=4)
    assert out.tolist() == [-1, 0, -1, 0]


def test_library_functions(bench: Any) -> None:
    left = bench.put([-(1 << 31), -3, 0, 4], torch.int32)
    right = bench.put([0, 1, 3, 4], torch.int32)
    out = bench.put([9] * 4, torch.int32)
    bench.kernels.binary[(1,)](left, right, out, 4, OP="abs and cdiv", BLOCK=4)
    assert out.tolist() == [-(1 << 31), 3 + 1, 0 + 1, 4 + 2]


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", ["int8", "uint16", "int64", "uint64"])
def test_casts_extend_by_the_source_s_sign_and_truncate(bench: Any, source: str, target: str) -> None:
    low, high = int(np.iinfo(source).min), int(np.iinfo(source).max)
    values = [low, low // 2, 0, 1, high // 2, high]
    x = bench.put(values, DTYPES[source])
    out = bench.put([0] * len(values), DTYPES[target])
    bench.kernels.widen[(1,)](x, out, len(values), BLOCK=8)
    assert out.tolist() == [wrapped(value, target) for value in values]
