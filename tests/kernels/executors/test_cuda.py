"""The cuda executor: its arena, and the counting of launches. Needs a GPU."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from harness.kernels.executors.base import ExecutorCannot
from harness.kernels.executors.cuda import CudaExecutor

SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def fill(output, value):
    tl.store(output + tl.program_id(0), value)
"""

pytestmark = pytest.mark.gpu


@pytest.fixture
def executor() -> CudaExecutor:
    reason = CudaExecutor.unavailable()
    if reason is not None:
        pytest.skip(reason)
    return CudaExecutor()


def test_bytes_come_back_and_tensors_see_exactly_theirs(executor: CudaExecutor) -> None:
    arena = executor.allocate(4096)
    assert arena.address % 256 == 0
    data = np.arange(256, dtype=np.uint8)
    arena.write(512, data)
    assert np.array_equal(arena.read(512, 256), data)
    tensor = arena.tensor(520, 16, torch.int16, (2, 2), (4, 1))
    assert tensor.data_ptr() == arena.address + 520
    assert tensor.untyped_storage().nbytes() == 16
    tensor.fill_(-1)
    expected = data.copy()
    expected[[8, 9, 10, 11, 16, 17, 18, 19]] = 255
    assert np.array_equal(arena.read(512, 256), expected)
    with pytest.raises(IndexError):
        arena.read(4000, 97)


@pytest.mark.parametrize("count", [3, 40])
def test_spans_are_written_and_read_together(executor: CudaExecutor, count: int) -> None:
    """A few are copied one by one, many are gathered on the device; the bytes between them are unchanged."""
    arena = executor.allocate(1 << 16)
    before = np.full(1 << 16, 7, dtype=np.uint8)
    for shift in (0, 3):  # other spans than the previous time
        arena.write(0, before)
        spans = tuple((shift + 1000 * i + i, 100 + i) for i in range(count))
        data = (np.arange(sum(size for _, size in spans)) % 251).astype(np.uint8)
        arena.write_all(spans, data)
        assert np.array_equal(arena.read_all(spans), data)
        expected, place = before.copy(), 0
        for offset, size in spans:
            expected[offset : offset + size] = data[place : place + size]
            place += size
        assert np.array_equal(arena.read(0, 1 << 16), expected)


def test_a_size_that_does_not_fit_is_no_crash(executor: CudaExecutor) -> None:
    with pytest.raises(ExecutorCannot, match="has no room"):
        executor.allocate(2**46)


def test_launches_are_counted(executor: CudaExecutor) -> None:
    from harness.kernels.targets.loading import load_module

    module = load_module("harness_cuda_test", SOURCE, executor)
    arena = executor.allocate(4096)
    executor.begin(arena, ())
    for programs in (3, 0):
        module.fill[(programs,)](arena.tensor(256, 4 * 8, torch.int32, (8,), (1,)), 7)
    assert executor.launches == 2
    assert arena.read(256, 12).view(np.int32).tolist() == [7, 7, 7]


def test_a_device_fault_is_a_finding_and_the_campaign_continues(harness: Callable[..., Any]) -> None:
    """A -1 row of the mapping that is not skipped becomes an address: the device faults, the worker is replaced."""
    done = harness("run", "-e", "cuda", "-t", "builtin+ignores-skip", "--ops", "all", "--domain", "both",
                   "--cases", 160, "--no-shrink", "--relations", "none", "--json")  # fmt: skip
    summary = json.loads(done.stdout)
    assert done.returncode == summary["exit_status"] == 1
    assert summary["cases"] == 160
    assert any("/device-fault/" in finding["signature"] for finding in summary["findings"])
