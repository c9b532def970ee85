"""Measure the native executor: a launch of 4 requests x 8 states x 16 tiles, and compiling. Prints a table.

    python tests/kernels/executors/native/measure_speed.py [--interpreter]

With --interpreter it also times one launch in Triton's interpreter, in a separate process (about a second).
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from harness.kernels.executors.base import AccessSpan, Executor, dispatching

REQUESTS, STATES, BLOCKS, BLOCK_SIZE = 4, 8, 64, 16
SPACING = 512


class Case:
    """A postprocess launch in which every request moves every state."""

    def __init__(self, executor: Executor) -> None:
        for name in ("record", "copy", "postprocess", "precopy", "context"):
            sys.modules.pop(f"harness.kernels.fused.{name}", None)
        with dispatching(executor):
            self._fused: Any = importlib.import_module("harness.kernels.fused.context")
        self.arena = executor.allocate(1 << 26)
        self.spans: list[AccessSpan] = []
        self._end = 0
        states = [
            self._fused.BoundState(
                *(
                    (self._tensor("conv", (BLOCKS, 5, 32), torch.bfloat16, per_block=True), "conv")
                    if index % 2 == 0
                    else (self._tensor("temporal", (BLOCKS, 4, 32), torch.float32, per_block=True), "temporal")
                )
            )
            for index in range(STATES)
        ]
        table = self._tensor("table", (REQUESTS, 8), torch.int32)
        table.copy_(torch.arange(1, 1 + REQUESTS * 8).reshape(REQUESTS, 8))
        self._context = self._fused.FusedContext(
            [states], [table], conv_layout="SD", block_size=BLOCK_SIZE, allocate=self._tensor
        )
        # 31 tokens are certain, 32 accepted: the state after token 32 moves from column 2 to column 1.
        values = {"accepted": 2, "state_column": 2, "scheduled": 3, "computed": 30, "draft": 2}
        self._arrays = {name: self._tensor(name, (REQUESTS,), torch.int32) for name in values}
        for name, value in values.items():
            self._arrays[name].fill_(value)

    def launch(self) -> None:
        self._context.postprocess(REQUESTS, **self._arrays)

    def _tensor(self, name: str, shape: Sequence[int], dtype: torch.dtype, per_block: bool = False) -> torch.Tensor:
        strides = [1]
        for size in reversed(shape[1:]):
            strides.insert(0, strides[0] * size)
        size = shape[0] * strides[0] * dtype.itemsize
        start, self._end = self._end, self._end + -(-size // SPACING) * SPACING + SPACING
        parts = shape[0] if per_block else 1
        self.spans += [
            AccessSpan(start + part * size // parts, size // parts, name, f"{name} {part}") for part in range(parts)
        ]
        return self.arena.tensor(start, size, dtype, shape, strides)


def shortest(work: Callable[[], None], repeats: int, rounds: int = 30) -> float:
    """Seconds per call, in the fastest round: other work on the machine only adds time."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeats):
            work()
        best = min(best, (time.perf_counter() - start) / repeats)
    return best


def measure_native() -> None:
    from harness.kernels.executors.native.executor import NativeExecutor

    with tempfile.TemporaryDirectory() as directory:
        for checks in (False, True):
            for kind in ("compiled", "from the disk cache"):
                executor = NativeExecutor(checks=checks, cache=Path(directory))
                case = Case(executor)
                executor.begin(case.arena, case.spans)
                start = time.perf_counter()
                case.launch()
                first = time.perf_counter() - start
                print(f"checks {checks!s:5}  first launch, {kind}: {first * 1e3:.1f} ms")
            print(f"checks {checks!s:5}  launch: {shortest(case.launch, 200) * 1e6:.1f} us")
            assert executor.faults() == ()


def measure_interpreter() -> None:
    from harness.kernels.executors.interpreter import InterpreterExecutor

    case = Case(InterpreterExecutor())
    print(f"interpreter  launch: {shortest(case.launch, 1, 2) * 1e6:.0f} us")


if __name__ == "__main__":
    if os.environ.get("TRITON_INTERPRET") == "1":
        measure_interpreter()
    else:
        measure_native()
        if "--interpreter" in sys.argv:
            subprocess.run([sys.executable, __file__], env={**os.environ, "TRITON_INTERPRET": "1"}, check=True)
