"""Loads, stores and addresses of compiled kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from harness.kernels.executors.base import AccessSpan

WIDTHS = [torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int16, torch.bool]


@pytest.mark.parametrize("dtype", WIDTHS)
def test_every_width_is_loaded_and_stored(bench: Any, dtype: torch.dtype) -> None:
    values = [0, 1, 1, 0, 1] if dtype is torch.bool else [0, 1, 127, 200, 255]
    source, target = bench.put(values, dtype), bench.put([0] * 8, dtype)
    bench.kernels.copy_masked[(1,)](source, target, 5, OTHER=None, BLOCK=8)
    assert target.tolist() == [bool(v) if dtype is torch.bool else v for v in [*values, 0, 0, 0]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_floats_are_moved_as_their_bits(bench: Any, dtype: torch.dtype) -> None:
    source = bench.put([0.0, -0.0, 1.5, float("inf"), float("nan")], dtype)
    target = bench.put([9.0] * 8, dtype)
    bench.kernels.copy_masked[(1,)](source, target, 5, OTHER=None, BLOCK=8)
    assert torch.equal(target.view(torch.uint8)[: source.nbytes], source.view(torch.uint8))
    assert target.view(torch.uint8)[source.nbytes :].sum() == 0


def test_masked_off_lanes_get_other(bench: Any) -> None:
    source, target = bench.put([1, 2, 3, 4, 5], torch.int32), bench.put([0] * 8, torch.int32)
    bench.kernels.copy_masked[(2,)](source, target, 5, OTHER=-7, BLOCK=4)
    assert target.tolist() == [1, 2, 3, 4, 5, -7, -7, -7]


def test_float_constant(bench: Any) -> None:
    source, target = bench.put([1.0], torch.float32), bench.put([0.0] * 4, torch.float32)
    bench.kernels.copy_masked[(1,)](source, target, 1, OTHER=-2.5, BLOCK=4)
    assert target.tolist() == [1.0, -2.5, -2.5, -2.5]


@pytest.mark.parametrize("n", [-(1 << 31), -3, 0, 5, (1 << 31) - 1])
def test_a_mask_whose_offsets_wrap_around(bench: Any, n: int) -> None:
    x = bench.put(list(range(8)), torch.int32)
    for start in (-(1 << 31), -4, 0, 2, (1 << 31) - 8, (1 << 31) - 7, (1 << 31) - 1):
        out = bench.put([9] * 8, torch.int32)
        bench.kernels.window[(1,)](x, out, start, n, BLOCK=8)
        offsets = (start + np.arange(8, dtype=np.int64)).astype(np.int32)
        assert out.tolist() == np.where(offsets < n, np.arange(8), -1).tolist()


def test_a_mask_that_depends_on_data(bench: Any) -> None:
    x, y = bench.put([1, 2, 3, 4], torch.int32), bench.put([1, 5, 3, 3], torch.int32)
    out = bench.put([-1] * 4, torch.int32)
    bench.kernels.copy_unequal[(1,)](x, y, out, 3, BLOCK=4)
    assert out.tolist() == [-1, 2, -1, -1]
    bench.kernels.copy_unequal[(1,)](x, y, out, -1, BLOCK=4)
    assert out.tolist() == [3, 3, -1, -1]


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 100])
def test_addresses_from_memory(bench: Any, size: int) -> None:
    source = bench.put(list(range(100)), torch.uint8)
    target = bench.put([255] * 100, torch.uint8)
    before = bench.snapshot()
    addresses = bench.put([source.data_ptr(), target.data_ptr()], torch.int64)
    bench.kernels.copy_bytes[(1,)](addresses, size, BLOCK=16)
    assert target.tolist() == [*range(size), *[255] * (100 - size)]
    after = bench.snapshot()[: len(before)]
    start = bench.offset(target)
    after[start : start + 100] = before[start : start + 100]
    end = bench.offset(addresses)
    assert np.array_equal(after[:end], before[:end])


@pytest.mark.parametrize("shift", [1, 3, 16, 20])
def test_overlapping_left_shift_is_a_memmove_within_a_block(bench: Any, shift: int) -> None:
    """Lanes of one operation all load before they store."""
    data = bench.put(list(range(60)), torch.uint8)
    addresses = bench.put([data.data_ptr() + shift, data.data_ptr()], torch.int64)
    bench.kernels.copy_bytes[(1,)](addresses, 60 - shift, BLOCK=64)
    assert data.tolist() == [*range(shift, 60), *range(60 - shift, 60)]


def test_addresses_beyond_32_bits(make_bench: Callable[..., Any]) -> None:
    bench = make_bench(40 << 30)
    stride, blocks, width = (1 << 32) + 4096, 9, 64
    base = bench.arena.tensor(0, bench.arena.size, torch.uint8, (1,), (1,))
    bench.begin([AccessSpan(block * stride, width, "state", f"block {block}") for block in range(blocks)])
    content = np.arange(width, dtype=np.uint8)
    bench.arena.write(8 * stride, content)
    bench.kernels.block_copy[(1,)](base, stride, 8, 1, BLOCK=width)
    assert bench.executor.faults() == ()
    assert np.array_equal(bench.arena.read(stride, width), content)


def test_gather_with_broadcast_masks(bench: Any) -> None:
    table = np.arange(40, dtype=np.int32).reshape(8, 5)
    out = bench.put([0] * 16, torch.int32)
    rows = bench.put([6, 0, 3], torch.int32)
    bench.kernels.gather[(1,)](bench.put(table.tolist(), torch.int32), rows, out, 5, 3, BLOCK_R=4, BLOCK_C=4)
    want = np.full((4, 4), -1, dtype=np.int32)
    want[:3, :3] = table[[6, 0, 3], :3]
    assert out.reshape(4, 4).tolist() == want.tolist()


def test_arguments_of_every_kind(bench: Any) -> None:
    out = bench.put([0] * 5, torch.int64)
    bench.kernels.scalar_types[(1,)](out, -5, -(1 << 40), 3, True)
    assert out.tolist() == [-5, -(1 << 40), 3, 1, 0]
    pointer = bench.put([11], torch.int64)
    bench.kernels.scalar_types[(1,)](out, 1 << 40, 7, c=1 << 35, flag=False, nothing=pointer)
    assert out.tolist() == [1 << 40, 7, 1 << 35, 1, 11]


def test_an_argument_that_does_not_fit_its_annotation_is_refused(bench: Any) -> None:
    out = bench.put([0] * 5, torch.int64)
    with pytest.raises(OverflowError, match=r"scalar_types: b = 9223372036854775808 does not fit i64"):
        bench.kernels.scalar_types[(1,)](out, 1, 1 << 63, 3, True)


def test_an_unchecked_kernel_does_the_same(make_bench: Callable[..., Any]) -> None:
    bench = make_bench(checks=False)
    source = bench.put(list(range(100)), torch.uint8)
    target = bench.put([255] * 100, torch.uint8)
    addresses = bench.put([source.data_ptr(), target.data_ptr()], torch.int64)
    bench.kernels.copy_bytes[(1,)](addresses, 77, BLOCK=16)
    assert target.tolist() == [*range(77), *[255] * 23]
    assert bench.executor.executed_lines() == set()
