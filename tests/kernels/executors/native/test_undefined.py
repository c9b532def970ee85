"""Uninitialised values: how they propagate, and which uses are reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from harness.kernels.executors.base import AccessFault


@pytest.fixture
def tracking(make_bench: Callable[..., Any]) -> Any:
    made = make_bench(undefined=True)
    yield made
    assert made.executor.faults() == ()


@pytest.fixture
def kernels(tracking: Any) -> ModuleType:
    loaded: ModuleType = tracking.load(Path(__file__).with_name("undefined_kernels.py"))
    return loaded


def put(bench: Any, values: list[int], undefined: list[int], dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """A tensor of which the elements numbered `undefined` are not defined."""
    bench.executor.shadow(bench.arena)  # before the spans are set
    tensor: torch.Tensor = bench.put(values, dtype)
    for number in undefined:
        size = tensor.element_size()
        bench.executor.shadow(bench.arena).write(bench.offset(tensor) + number * size, np.full(size, 255, np.uint8))
    return tensor


def undefined(bench: Any, tensor: torch.Tensor) -> list[int]:
    """The numbers of the elements of which any byte is undefined."""
    size = tensor.numel() * tensor.element_size()
    shadow = bench.executor.shadow(bench.arena).read(bench.offset(tensor), size)
    return [int(i) for i in np.flatnonzero(shadow.reshape(tensor.numel(), -1).any(axis=1))]


def uses(bench: Any) -> list[tuple[str, int, int]]:
    """The reported uses of undefined numbers: how they were used, where they were read, by which lane."""
    faults: tuple[AccessFault, ...] = bench.executor.faults()
    bench.begin()
    return [(fault.violation, fault.offset, fault.lane) for fault in faults]


def test_a_block_is_copied_with_what_is_undefined_in_it(tracking: Any, kernels: ModuleType) -> None:
    source, target = put(tracking, list(range(8)), [1, 6, 7]), put(tracking, [9] * 8, [0, 1, 7])
    kernels.copy[(1,)](source, target, 7, LANES=8)
    assert target.tolist() == [0, 1, 2, 3, 4, 5, 6, 9]
    assert undefined(tracking, target) == [1, 6, 7]


def test_separate_elements_are_copied_with_what_is_undefined_in_them(tracking: Any, kernels: ModuleType) -> None:
    source, target = put(tracking, list(range(16)), [2, 3, 4]), put(tracking, [9] * 16, [0, 1])
    kernels.copy_apart[(1,)](source, target, 12, LANES=8)
    assert undefined(tracking, target) == [1, 2, 4]


def test_bytes_of_an_element_are_undefined_one_by_one(tracking: Any, kernels: ModuleType) -> None:
    source, target = put(tracking, [1, 2], []), put(tracking, [0, 0], [])
    shadows = tracking.executor.shadow(tracking.arena)
    shadows.write(tracking.offset(source) + 5, np.array([255], np.uint8))
    kernels.copy[(1,)](source, target, 2, LANES=2)
    assert shadows.read(tracking.offset(target), 8).tolist() == [0, 0, 0, 0, 0, 255, 0, 0]


@pytest.mark.parametrize(("which", "wanted"), [([], []), ([0], [0]), ([1], [0])])
def test_a_sum_is_undefined_as_a_whole(tracking: Any, kernels: ModuleType, which: list[int], wanted: list[int]) -> None:
    source, target = put(tracking, [3, 4], which), put(tracking, [0, 0], [])
    kernels.add[(1,)](source, target)
    assert target[0] == 7
    assert undefined(tracking, target) == wanted


def test_an_address(tracking: Any, kernels: ModuleType) -> None:
    source, target = put(tracking, [2], [0]), put(tracking, [0] * 4, [])
    kernels.address[(1,)](source, target)
    assert target.tolist() == [0, 0, 1, 0]
    assert uses(tracking) == [("undefined-address", tracking.offset(source), 0)]


def test_addresses_of_a_tensor(tracking: Any, kernels: ModuleType) -> None:
    source, target = put(tracking, [3, 2, 1, 0], [2]), put(tracking, [0] * 4, [])
    kernels.addresses[(1,)](source, target, LANES=4)
    assert uses(tracking) == [("undefined-address", tracking.offset(source) + 8, 2)]


def test_a_mask(tracking: Any, kernels: ModuleType) -> None:
    source, target = put(tracking, [1, 0, 1, 0], [1]), put(tracking, [9] * 4, [])
    kernels.mask[(1,)](source, target, LANES=4)
    assert uses(tracking)[0][:2] == ("undefined-branch", tracking.offset(source) + 4)


@pytest.mark.parametrize("kernel", ["branch", "bound", "until"])
def test_what_is_done(tracking: Any, kernels: ModuleType, kernel: str) -> None:
    source, target = put(tracking, [1], [0]), put(tracking, [0] * 4, [])
    getattr(kernels, kernel)[(1,)](source, target)
    assert target[0] == 1
    assert set(uses(tracking)) == {("undefined-branch", tracking.offset(source), 0)}
    source = put(tracking, [1], [])
    getattr(kernels, kernel)[(1,)](source, target)
    assert uses(tracking) == []


@pytest.mark.parametrize(("first", "which", "wanted"), [(0, [1], [0]), (1, [1], []), (1, [0], [0]), (0, [], [])])
def test_what_is_not_chosen_does_not_matter(
    tracking: Any, kernels: ModuleType, first: int, which: list[int], wanted: list[int]
) -> None:
    source, target = put(tracking, [first, 4], which), put(tracking, [0], [])
    kernels.choice[(1,)](source, target)
    assert undefined(tracking, target) == wanted


def test_a_mask_that_rules_it_out(tracking: Any, kernels: ModuleType) -> None:
    source, target = put(tracking, [1] * 8, [4, 5, 6, 7]), put(tracking, [0] * 16, [])
    kernels.ruled_out[(1,)](source, target, 4, LANES=8)
    # The first store's masks are false past 4, for any value read there; those of the second store depend on it.
    assert [lane for _, _, lane in uses(tracking)] == [4, 5, 6, 7]


@pytest.mark.parametrize(("which", "wanted"), [([0], []), ([2], [0])])
def test_through_control_flow(tracking: Any, kernels: ModuleType, which: list[int], wanted: list[int]) -> None:
    source, target = put(tracking, [1, 2, 3], which), put(tracking, [0], [])
    kernels.carried[(1,)](source, target, 3)
    assert target[0] == 3
    assert undefined(tracking, target) == wanted


def test_through_control_flow_as_a_tensor(tracking: Any, kernels: ModuleType) -> None:
    source, target = put(tracking, list(range(8)), [1, 6]), put(tracking, [0] * 4, [])
    kernels.carried_tensor[(1,)](source, target, 2, LANES=4)
    assert target.tolist() == [4, 5, 6, 7]
    assert undefined(tracking, target) == [2]


def test_nothing_is_tracked_unless_requested(make_bench: Callable[..., Any]) -> None:
    assert make_bench().executor.shadow(make_bench().arena) is None
    bench = make_bench(undefined=True)
    bench.executor.watch(("memory", "races"))
    assert bench.executor.shadow(bench.arena) is None


def test_a_sum_of_something_undefined_is_undefined(tracking: Any) -> None:
    numbers = put(tracking, [1, 2, 3, 4, 5, 6], [4])
    out = put(tracking, [0] * 35, [])
    tracking.kernels.fold[(1,)](numbers, out, 6, BLOCK=16)
    # All sums, running ones from lane 4 on, and from the other end those up to lane 4.
    assert undefined(tracking, out) == [0, 1, 2, 3 + 4, 3 + 5, *range(19, 19 + 5)]
    assert out.tolist()[:2] == [21, 6]


def test_lanes_that_are_masked_off_do_not_count_in_a_sum(tracking: Any) -> None:
    numbers = put(tracking, [1, 2, 3, 4, 5, 6], [4, 5])
    out = put(tracking, [0] * 35, [])
    tracking.kernels.fold[(1,)](numbers, out, 4, BLOCK=16)
    assert undefined(tracking, out) == []


def test_an_undefined_counter_stays_undefined(tracking: Any) -> None:
    counter, out = put(tracking, [0], [0]), put(tracking, [-1] * 2, [])
    tracking.kernels.claim[(1,)](counter, out)
    found = uses(tracking)
    assert ("undefined-address", tracking.offset(counter), 0) in found
    assert ("undefined-branch", tracking.offset(counter), 0) in found
