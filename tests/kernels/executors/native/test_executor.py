"""The executor as a whole: counting, program orders, executed lines, compiled variants, unsupported kernels."""

from __future__ import annotations

import gc
import inspect
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.kernels.executors.base import ExecutorCannot
from harness.kernels.executors.interpreter import InterpreterExecutor
from harness.kernels.executors.native import executor as executor_module
from harness.kernels.executors.native.executor import NativeExecutor

_NO_INTERPRETER = InterpreterExecutor.unavailable()


def test_launches_are_counted_and_empty_grids_are_none(bench: Any) -> None:
    target = bench.put([0] * 4, torch.int32)
    bench.kernels.write_at[(1,)](target, 0)
    bench.kernels.write_at[lambda meta: (2, 1)](target, 0)
    bench.kernels.write_at[(0, 3)](target, 0)
    assert bench.executor.launches == 2
    bench.begin()
    assert bench.executor.launches == 0


def test_warmup_compiles_and_launches_nothing(bench: Any) -> None:
    target = bench.put([0] * 4, torch.int32)
    bench.kernels.write_at.run(target, 0, grid=(1,), warmup=True)
    assert bench.executor.launches == 0
    assert target.tolist() == [0] * 4


def test_launch_options_are_accepted_and_others_refused(bench: Any) -> None:
    target = bench.put([0] * 4, torch.int32)
    bench.kernels.write_at[(1,)](target, 0, num_warps=8, num_stages=1)
    assert target.tolist() == [1, 2, 3, 4]
    with pytest.raises(KeyError, match="num_wraps"):
        bench.kernels.write_at[(1,)](target, 0, num_wraps=8)


@pytest.mark.parametrize("grid", [(-1,), (1, 70000), (1, 1, 1, 1), ()])
def test_impossible_grids_are_refused(bench: Any, grid: tuple[int, ...]) -> None:
    target = bench.put([0] * 4, torch.int32)
    with pytest.raises(ValueError, match="grid"):
        bench.kernels.write_at[grid](target, 0)


def run_order(make_bench: Callable[..., Any], order: Any, launches: int = 1) -> list[int]:
    bench = make_bench(program_order=order)
    out = bench.put([-1] * 12, torch.int32)
    for _ in range(launches):
        counter = bench.put([0], torch.int32)
        bench.executor.launches = launches - 1
        bench.kernels.take_ticket[(4, 3)](counter, out)
    tickets: list[int] = out.tolist()
    return tickets


def test_program_orders(make_bench: Callable[..., Any]) -> None:
    assert run_order(make_bench, "natural") == list(range(12))
    assert run_order(make_bench, "reversed") == list(range(12))[::-1]
    # Pinned: a repro that names a seed must mean the same order everywhere.
    shuffled = run_order(make_bench, ("shuffled", 7))
    assert shuffled == [10, 7, 5, 11, 3, 6, 4, 2, 0, 1, 9, 8]
    assert run_order(make_bench, ("shuffled", 7)) == shuffled
    assert run_order(make_bench, ("shuffled", 8)) != shuffled
    assert run_order(make_bench, ("shuffled", 7), launches=2) != shuffled


@pytest.mark.parametrize("order", ["backwards", ("shuffled",), ("shuffled", "x"), 3])
def test_unknown_program_orders_are_refused(order: Any) -> None:
    with pytest.raises(ValueError, match="a program order is"):
        NativeExecutor(program_order=order, cache=None)


def lines_of(function: Any, lines: set[Any]) -> set[str]:
    texts, start = inspect.getsourcelines(function.fn)
    return {
        texts[line.line - start].strip()
        for line in lines
        if line.function == function.fn.__name__ and start <= line.line < start + len(texts)
    }


def test_executed_lines(bench: Any) -> None:
    kernel = bench.kernels.collatz
    steps = bench.put([0, 0], torch.int32)
    starts = bench.put([-1, 8], torch.int32)
    kernel[(1,)](starts, steps, 2)
    first = lines_of(kernel, bench.executor.executed_lines())
    assert "tl.store(steps + i, -1)" in first
    assert "value = value // 2" not in first
    kernel[(2,)](starts, steps, 2)
    second = lines_of(kernel, bench.executor.executed_lines())
    assert first < second
    assert "value = value // 2" in second
    assert "value = 3 * value + 1" not in second
    known = lines_of(kernel, bench.executor.known_lines())
    assert "value = 3 * value + 1" in known
    assert {line.file for line in bench.executor.executed_lines()} == {kernel.fn.__code__.co_filename}
    bench.executor.forget_lines()
    assert bench.executor.executed_lines() == set()


def test_where_a_kernel_is_that_does_not_end(bench: Any) -> None:
    kernel = bench.kernels.wait_for
    flag, out = bench.put([0], torch.int32), bench.put([0], torch.int32)
    assert bench.executor.under_way(0.0) is None
    launch = threading.Thread(target=lambda: kernel[(1,)](flag, out), daemon=True)
    launch.start()
    deadline = time.monotonic() + 600
    while bench.executor.under_way(0.0) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    bench.executor.under_way(0.5)  # until it is certainly in its loop
    name, lines = bench.executor.under_way(0.5)
    flag[0] = 7
    launch.join(60)
    assert (name, out.tolist()) == ("wait_for", [7])
    assert lines_of(kernel, lines) <= {"while seen == 0:", "seen = tl.load(flag)"}
    assert lines
    assert "tl.store(out, seen)" in lines_of(kernel, bench.executor.executed_lines())
    assert bench.executor.under_way(0.0) is None


def test_lines_of_device_functions_are_their_own(bench: Any) -> None:
    target = bench.put([0] * 4, torch.int32)
    bench.kernels.write_at[(1,)](target, 0)
    assert "tl.store(target + offset + lanes, lanes + 1)" in lines_of(
        bench.kernels.store_one, bench.executor.executed_lines()
    )


def test_dropped_variants_come_back_and_their_lines_stay(
    make_bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_module, "VARIANT_LIMIT", 2)
    bench = make_bench()
    source = bench.put(list(range(64)), torch.int32)
    target = bench.put([0] * 64, torch.int32)
    for block in (4, 8, 16, 32, 64):
        bench.kernels.copy_masked[(1,)](source, target, 64, OTHER=None, BLOCK=block)
        assert target.tolist()[:block] == list(range(block))
        target.zero_()
    assert len(bench.kernels.copy_masked.variants) == 1
    bench.kernels.collatz[(1,)](source, target, 0)
    bench.kernels.write_at[(1,)](target, 0)
    assert {line.function for line in bench.executor.executed_lines()} == {"copy_masked", "collatz", "store_one"}


def test_memory_of_dropped_variants_is_given_back(make_bench: Callable[..., Any]) -> None:
    bench = make_bench()
    target = bench.put([0] * 4, torch.int32)

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def reload(times: int) -> int:
        for _ in range(times):
            bench.kernels.write_at[(1,)](target, 0)
            bench.executor._drop_variants()
        gc.collect()
        return resident()

    before = reload(20)
    # A variant that stayed in memory would take some 100 KB.
    assert reload(100) - before < 4 << 20


def test_unknown_operations_name_themselves_and_their_line(bench: Any) -> None:
    x, out = bench.put([1.0] * 4, torch.float32), bench.put([0.0] * 4, torch.float32)
    with pytest.raises(ExecutorCannot, match=r"arith\.addf.*sample_kernels\.py:\d+, in combined"):
        bench.kernels.binary[(1,)](x, x, out, 4, OP="add", BLOCK=4)


def test_float_arithmetic_is_refused(bench: Any) -> None:
    x, out = bench.put([1.0] * 4, torch.float32), bench.put([0.0] * 4, torch.float32)
    with pytest.raises(ExecutorCannot, match=r"arith\.addf.*in combined"):
        bench.kernels.binary[(1,)](x, x, out, 4, OP="add", BLOCK=4)


def test_arguments_that_cannot_be_passed_are_refused(bench: Any) -> None:
    with pytest.raises(ExecutorCannot, match="cannot pass float as write_at's offset"):
        bench.kernels.write_at[(1,)](bench.put([0] * 4, torch.int32), 1.5)


def test_why_it_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert NativeExecutor.unavailable() is None
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert "interpreter" in str(NativeExecutor.unavailable())


INTERPRETED = """
import importlib.util, sys
import torch
spec = importlib.util.spec_from_file_location("sample_kernels", sys.argv[1])
kernels = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kernels)
data = torch.load(sys.argv[2])
exec(open(sys.argv[3]).read())
torch.save(data, sys.argv[2])
"""

LAUNCHES = """
kernels.copy_masked[(3,)](data["x"], data["masked"], 9, OTHER=5, BLOCK=4)
kernels.binary[(1,)](data["x"], data["y"], data["quotient"], 12, OP="div", BLOCK=16)
kernels.binary[(1,)](data["x"], data["y"], data["remainder"], 12, OP="rem", BLOCK=16)
kernels.binary[(1,)](data["x"], data["y"], data["shifted"], 12, OP="shr", BLOCK=16)
kernels.collatz[(12,)](data["y"], data["steps"], 11)
kernels.gather[(1,)](data["x"], data["rows"], data["gathered"], 2, 3, BLOCK_R=4, BLOCK_C=4)
addresses = data["addresses"]
addresses[0], addresses[1] = data["bytes"].data_ptr() + 5, data["bytes"].data_ptr()
kernels.copy_bytes[(1,)](addresses, 90, BLOCK=128)
addresses.zero_()
"""


@pytest.mark.skipif(_NO_INTERPRETER is not None, reason=_NO_INTERPRETER or "")
def test_results_are_those_of_tritons_interpreter(make_bench: Callable[..., Any], tmp_path: Path) -> None:
    bench = make_bench()
    generator = torch.Generator().manual_seed(1)
    x = torch.randint(-(1 << 31), 1 << 31, (12,), generator=generator)
    content: dict[str, Any] = {
        "x": (x.tolist(), torch.int32),
        "y": ([1, 2, -3, 7, -1, 30, 31, 5, 9, 4, 100, 12], torch.int32),
        "rows": ([4, 0, 2], torch.int32),
        "bytes": (torch.randint(0, 256, (100,), generator=generator).tolist(), torch.uint8),
        "addresses": ([0, 0], torch.int64),
        **{
            name: ([-1] * 16, torch.int32)
            for name in ("masked", "quotient", "remainder", "shifted", "steps", "gathered")
        },
    }
    data = {name: bench.put(values, dtype) for name, (values, dtype) in content.items()}
    saved, launches = tmp_path / "data.pt", tmp_path / "launches.py"
    torch.save({name: tensor.clone() for name, tensor in data.items()}, saved)
    launches.write_text(LAUNCHES)
    samples = inspect.getsourcefile(bench.kernels.collatz.fn)
    subprocess.run(
        [sys.executable, "-c", INTERPRETED, str(samples), str(saved), str(launches)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        check=True,
    )
    exec(LAUNCHES, {"kernels": bench.kernels, "data": data})
    assert bench.executor.faults() == ()
    interpreted = torch.load(saved)
    assert {name: tensor.tolist() for name, tensor in data.items()} == {
        name: tensor.tolist() for name, tensor in interpreted.items()
    }


def test_a_kernel_may_be_made_before_what_it_calls(bench: Any, tmp_path: Path) -> None:
    path = tmp_path / "early_kernel.py"
    path.write_text(
        "import triton\nimport triton.language as tl\n\n\n"
        "@triton.jit\ndef early(out):\n    tl.store(out, late(3))\n\n\n"
        "@triton.jit\ndef late(x):\n    return x * 7\n"
    )
    out = bench.put([0], torch.int32)
    bench.load(path).early[(1,)](out)
    assert out.item() == 21
