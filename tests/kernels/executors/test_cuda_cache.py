"""What the cuda executor's kernels are called in Triton's cache of compiled kernels. Needs no GPU."""

from __future__ import annotations

from harness.kernels.executors.cuda import CudaExecutor
from harness.kernels.targets.loading import load_module

SOURCE = """\
import triton
import triton.language as tl

NUMBER = tl.constexpr({number})


@triton.jit
def number(NUMBER: tl.constexpr = NUMBER):
    return NUMBER


@triton.jit
def fill(output):
    tl.store(output + tl.program_id(0), number())
"""


def test_a_constant_of_another_value_makes_another_kernel() -> None:
    """Also in a function that the kernel calls, whose text is the same."""
    executor = CudaExecutor.__new__(CudaExecutor)  # it compiles nothing here
    keys = [load_module("filler", SOURCE.format(number=number), executor).fill.cache_key for number in (1, 2, 1)]
    assert keys[0] != keys[1]
    assert keys[0] == keys[2]
