"""Control flow of compiled kernels: loops, early returns, values that result from branches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch


def collatz_steps(value: int) -> int:
    steps = 0
    while value != 1:
        value = value // 2 if value % 2 == 0 else 3 * value + 1
        steps += 1
    return steps


def test_while_and_early_return(bench: Any) -> None:
    starts = [27, 1, 0, -4, 97, 6]
    steps = bench.put([-9] * 6, torch.int32)
    bench.kernels.collatz[(6,)](bench.put(starts, torch.int32), steps, 5)
    assert steps.tolist() == [collatz_steps(27), 0, -1, -1, collatz_steps(97), -9]


@pytest.mark.parametrize(("rows", "columns"), [(0, 5), (1, 0), (4, 7), (7, 4)])
def test_nested_loops(bench: Any, rows: int, columns: int) -> None:
    out = bench.put([-1], torch.int32)
    bench.kernels.nested_loops[(1,)](out, rows, columns)
    total = 0
    for row in range(rows):
        total = total * 3 + sum(range(row, columns, 2))
    assert out.item() == total


@pytest.mark.parametrize("times", [0, 1, 2, 5])
def test_loop_carried_tensors_are_moved_all_at_once(bench: Any, times: int) -> None:
    # As many lanes as threads: with fewer, Triton (3.9) never finishes the layouts of this kernel, if requested.
    a, b = np.arange(128, dtype=np.int32), np.arange(1000, 1128, dtype=np.int32)
    x, y = bench.put(a.tolist(), torch.int32), bench.put(b.tolist(), torch.int32)
    bench.kernels.swap_tensors[(1,)](x, y, times, BLOCK=128)
    for _ in range(times):
        a, b = b + 1, a.reshape(2, 64).T.reshape(128)
    assert x.tolist() == a.tolist()
    assert y.tolist() == b.tolist()


@pytest.mark.parametrize(("flag", "want"), [(3, [8 + 2 * i for i in range(4)]), (-3, [53 + i for i in range(4)])])
def test_values_of_branches(bench: Any, flag: int, want: list[int]) -> None:
    x, y = bench.put([0, 1, 2, 3], torch.int32), bench.put([50, 51, 52, 53], torch.int32)
    out = bench.put([0] * 4, torch.int32)
    bench.kernels.choose[(1,)](x, y, out, flag, BLOCK=4)
    assert out.tolist() == want
    bench.kernels.choose[(1,)](x, y, out, 0, BLOCK=4)
    assert out.tolist() == [7, 8, 9, 10]


def test_while_with_a_tensor(bench: Any) -> None:
    x = bench.put([0, 10, 20, 30], torch.int32)
    bench.kernels.while_tensor[(1,)](x, 20, BLOCK=4)
    assert x.tolist() == [value + 1 + 2 + 4 + 8 + 16 + 32 for value in (0, 10, 20, 30)]


def test_a_long_chain_of_tensor_operations(bench: Any) -> None:
    values = np.arange(16, dtype=np.int32) * 77
    out = bench.put([0] * 16, torch.int32)
    bench.kernels.deep_sum[(1,)](bench.put(values.tolist(), torch.int32), out, ROUNDS=200, BLOCK=16)
    lanes = np.arange(16, dtype=np.int32)
    for i in range(200):
        values = (values ^ (lanes + np.int32(i))) + values
    assert out.tolist() == values.tolist()


def test_program_ids(bench: Any) -> None:
    out = bench.put([0] * 24, torch.int32)
    bench.kernels.program_numbers[(2, 3, 4)](out)
    assert out.tolist() == [x + 100 * y + 10000 * z + 4000000 for z in range(4) for y in range(3) for x in range(2)]


def folded(numbers: list[int], lanes: int) -> list[int]:
    """What `fold` stores."""
    kept = [*numbers, *[0] * (lanes - len(numbers))]
    running = np.cumsum(np.array(numbers, dtype=np.int32), dtype=np.int32).tolist()
    backwards = np.cumsum(np.array(numbers[::-1], dtype=np.int32), dtype=np.int32).tolist()[::-1]
    total = int(np.array(kept, dtype=np.int32).sum(dtype=np.int32))
    large = int(np.array([number for number in kept if number > 3], dtype=np.int64).sum().astype(np.int32))
    return [total, max(kept), large, *running, *backwards]


@pytest.mark.parametrize("numbers", [[5], [3, -4, 7, 2, 2, 9, 0, -1], list(range(16)), [2**31 - 1, 5, -7]])
def test_reductions_and_scans(bench: Any, numbers: list[int]) -> None:
    lanes, n = 16, len(numbers)
    out = bench.put([-9] * (3 + 2 * lanes), torch.int32)
    bench.kernels.fold[(1,)](bench.put([*numbers, 99], torch.int32), out, n, BLOCK=lanes)
    found = out.tolist()
    assert [*found[: 3 + n], *found[3 + lanes : 3 + lanes + n]] == folded(numbers, lanes)
    assert set(found[3 + n : 3 + lanes] + found[3 + lanes + n :]) <= {-9}


@pytest.mark.parametrize("order", ["natural", "reversed", ("shuffled", 5)])
def test_each_program_claims_a_different_number(bench: Any, order: Any) -> None:
    bench.executor.program_order = order
    counter, out = bench.put([0], torch.int32), bench.put([-1] * 40, torch.int32)
    bench.kernels.claim[(40,)](counter, out)
    assert sorted(out.tolist()) == list(range(40))
    assert counter.tolist() == [0]
    if order == "natural":
        assert out.tolist() == list(range(40))
