"""The kernel benchmark: the launches of a step, on shapes of published models, for several targets.

Kernels are timed inside CUDA graphs, on memory that the launches before have not touched. For comparison it also
measures a copy of the same number of bytes within the device, the host's part of a launch, all launches of a step
together, and what a runner did before there were such kernels. Without an NVIDIA GPU it only says why nothing is
measured.
"""

from __future__ import annotations

import gc
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
import triton

from harness.bench import gpu_timing
from harness.bench.gpu_timing import Call
from harness.bench.loop import fused_step, looped_step
from harness.bench.pools import Form, Pool, StepShape
from harness.bench.report import Report, Row, Sample
from harness.bench.shapes import ModelShape
from harness.case import ConvLayout
from harness.kernels.targets.base import Target

BATCHES = (1, 8, 32, 64, 128, 256)
MANY = (512, 1024)
"""Larger numbers of requests, only for steps in which nothing moves."""
ROTATED_BYTES = 256 << 20
"""The minimum number of bytes that launches of one graph touch: several times the size of the caches."""
MOST_COPIES = 4
ROUNDS = 15


class Clocks(Protocol):
    """The functions that time arms, with the interface of gpu_timing."""

    def time_graphs(self, arms: Mapping[str, Sequence[Call]], rounds: int) -> dict[str, Sample]: ...
    def time_launches(self, arms: Mapping[str, Sequence[Call]], rounds: int) -> dict[str, Sample]: ...
    def time_host(self, arms: Mapping[str, Call], rounds: int) -> dict[str, Sample]: ...
    def time_steps(self, arms: Mapping[str, Call], rounds: int) -> dict[str, Sample]: ...


Progress = Callable[[Row], object]


class Benchmark:
    """Measures `targets`, by name, on shapes, with `rounds` measured replays of each graph."""

    def __init__(
        self,
        targets: Mapping[str, Target],
        device: torch.device,
        *,
        rounds: int = ROUNDS,
        batches: Sequence[int] = BATCHES,
        many: Sequence[int] = MANY,
        most_bytes: int = 100 << 30,
        clocks: Clocks = gpu_timing,
    ) -> None:
        self._targets = targets
        self._device = device
        self._rounds = rounds
        self._batches, self._many = batches, many
        self._most_bytes = most_bytes
        self._clocks = clocks
        self.skipped: list[str] = []

    def run(self, shapes: Sequence[ModelShape]) -> Iterator[Row]:
        """All measurements of these shapes; the first one also shows how time grows with the number of requests."""
        for number, shape in enumerate(shapes):
            yield from self._shape(shape, full=number == 0)

    def _shape(self, shape: ModelShape, *, full: bool) -> Iterator[Row]:
        fitting = [n for n in self._batches if n <= shape.rows]
        idle = (*self._batches, *self._many) if full else self._some(self._batches)
        movers = max(fitting)
        pool = self._pool(shape, "SD", movers, aligned=True)
        movers = min(movers, pool.moves)
        few = [n for n in self._some(fitting) if n <= movers]
        forms: tuple[tuple[Form, str], ...] = (("V1", "postprocess"), ("V2", "postprocess"), ("V2", "precopy"))
        for n in idle:
            for form, operation in forms:
                yield self._row(pool, StepShape(n, 0), form, operation, "idle")
        for n in self._batches:
            decoding = max(1, round(n * (1 + shape.num_spec) / 2 / shape.block_size))
            if decoding <= movers and n in few:
                yield self._row(pool, StepShape(n, decoding), "V1", "postprocess", "decode")
            if n >= 8 and n // 8 <= movers:
                yield self._row(pool, StepShape(n, n // 8), "V1", "postprocess", "mixed")
            if n <= movers:
                yield self._row(pool, StepShape(n, n), "V1", "postprocess", "burst")
            else:
                self.skipped.append(f"{shape.name}, {n} requests that all move: only {movers} fit this device")
        for n in few:
            yield self._row(pool, StepShape(n, n), "V2", "precopy", "burst")
            if shape.num_spec:
                yield self._row(pool, StepShape(n, n, same_block=True), "V1", "postprocess", "same block")
        for n in few:
            for moving, fill in ((0, "idle"), (max(1, n // 8), "mixed"), (n, "burst")):
                yield self._row(pool, StepShape(n, moving), "V2", "step", fill)
        if full:
            yield from self._host_rows(pool)
            yield from self._latencies(pool, few)
        del pool
        for conv_layout, aligned in (("DS", True), ("SD", False), ("DS", False)):
            layout: ConvLayout = "DS" if conv_layout == "DS" else "SD"
            pool = self._pool(shape, layout, max(few), aligned=aligned)
            for n in few:
                yield self._row(pool, StepShape(n, n), "V1", "postprocess", "burst")
                if shape.num_spec and conv_layout == "DS":
                    yield self._row(pool, StepShape(n, n, same_block=True), "V1", "postprocess", "same block")
            del pool

    def _some(self, batches: Sequence[int]) -> list[int]:
        """A small, a middle and a large batch, at most 32 requests where all move."""
        return sorted({batches[0], min(batches[len(batches) // 2], 32), min(batches[-1], 256)})

    def _pool(self, shape: ModelShape, conv_layout: ConvLayout, movers: int, *, aligned: bool) -> Pool:
        """Memory for one step with that many moving requests, or for several steps with fewer of them."""
        each = 3 * len(shape.groups) * shape.block_bytes
        wanted = max(movers, min(MOST_COPIES, 1 + ROTATED_BYTES // max(shape.moved_bytes(0), 1)))
        if self._device.type == "cuda":
            gc.collect()  # a step and what it is bound to hold each other, and with them the memory of their pool
            torch.cuda.empty_cache()
            free = min(self._most_bytes, torch.cuda.mem_get_info(self._device)[0] * 9 // 10)
            wanted = max(1, min(wanted, free // each))
        return Pool(shape, conv_layout, wanted, 1, self._device, aligned=aligned)

    def _row(self, pool: Pool, step: StepShape, form: Form, operation: str, fill: str) -> Row:
        """One measurement in CUDA graphs."""
        copies = 1
        if step.movers:
            wanted = 1 + ROTATED_BYTES // max(1, step.movers * pool.shape.moved_bytes(0))
            copies = max(1, min(MOST_COPIES, wanted, pool.moves // step.movers))
        steps = pool.steps(step, copies)
        arms: dict[str, Sequence[Call]] = {
            name: [one.bind(target, form).call(operation) for one in steps] for name, target in self._targets.items()
        }
        if step.movers:
            arms["copy"] = self._device_copies(steps[0].bytes // 2, copies)
        times = self._clocks.time_graphs(arms, self._rounds)
        if "copy" in arms:
            # A graph may give large copies to a slower engine of the device.
            alone = self._clocks.time_launches({"copy": arms["copy"]}, self._rounds)["copy"]
            times["copy"] = min(times["copy"], alone, key=lambda found: found.microseconds)
        return self._made(pool, step, f"{operation} {form}", fill, steps[0].bytes, "graph", times)

    def _device_copies(self, size: int, copies: int) -> list[Call]:
        """Copies of `size` bytes, each on separate memory. Large ones are rounded up to whole pages of 2 MiB: with an
        odd number of bytes at the end, the device takes half as long again for all of them."""
        page = 1 << (21 if size > 1 << 24 else 9)
        whole = -(-size // page) * page
        calls: list[Call] = []
        for _ in range(copies):
            source = torch.empty(whole, dtype=torch.uint8, device=self._device)
            source.view(torch.int64).random_()
            destination = torch.empty_like(source)
            calls.append(lambda source=source, destination=destination: destination.copy_(source))  # type: ignore[misc]
        return calls

    def _host_rows(self, pool: Pool) -> Iterator[Row]:
        """The host's part of launches of steps in which nothing moves."""
        step = StepShape(self._some(self._batches)[-1], 0)
        forms: tuple[tuple[Form, str], ...] = (("V1", "postprocess"), ("V2", "postprocess"), ("V2", "precopy"))
        for form, operation in forms:
            (one,) = pool.steps(step, 1)
            arms = {name: one.bind(target, form).call(operation) for name, target in self._targets.items()}
            times = self._clocks.time_host(arms, self._rounds)
            yield self._made(pool, step, f"{operation} {form}", "idle", 0, "host", times)

    def _latencies(self, pool: Pool, batches: Sequence[int]) -> Iterator[Row]:
        """A whole V1 step as a runner sees it, now and before there were fused kernels."""
        for n in batches:
            for movers, fill in ((0, "idle"), (1, "decode")):
                step = StepShape(n, movers)
                (one,) = pool.steps(step, 1)
                arms: dict[str, Call] = {}
                for name, target in self._targets.items():
                    bound = one.bind(target, "V1")
                    arms[name] = fused_step(bound)
                    arms[f"loop, {name}"] = looped_step(bound)
                times = self._clocks.time_steps(arms, self._rounds)
                yield self._made(pool, step, "after a step V1", fill, one.bytes, "latency", times)

    def _made(
        self,
        pool: Pool,
        step: StepShape,
        operation: str,
        fill: str,
        size: int,
        measure: str,
        times: Mapping[str, Sample],
    ) -> Row:
        return Row(
            shape=pool.shape.name,
            conv_layout=pool.layout.conv_layout,
            aligned=pool.layout.buffers[0].misalignment == 0,
            operation=operation,
            fill=fill,
            requests=step.requests,
            movers=step.movers,
            bytes=size,
            measure=measure,
            times=times,
        )


def measure(
    targets: Sequence[str], shapes: Sequence[ModelShape], *, rounds: int = ROUNDS, progress: Progress | None = None
) -> Report:
    """Measure targets on this machine. Raises UnknownTarget, TargetLacks or OutsideContract."""
    from harness.kernels.executors.cuda import CudaExecutor
    from harness.kernels.targets.registry import load_target

    start = time.perf_counter()
    reason = CudaExecutor.unavailable()
    # PyTorch's version is a subclass of str, which is not encoded.
    about: dict[str, Any] = {
        "torch": str(torch.__version__),
        "triton": str(triton.__version__),
        "python": platform.python_version(),
    }
    if reason is not None:
        return Report(device="none", targets=targets, seconds=0.0, skipped=(reason,), **about)
    executor = CudaExecutor()
    benchmark = Benchmark({name: load_target(name, executor) for name in targets}, executor.device, rounds=rounds)
    rows = []
    for row in benchmark.run(shapes):
        rows.append(row)
        if progress is not None:
            progress(row)
    return Report(
        device=torch.cuda.get_device_name(executor.device),
        targets=targets,
        seconds=round(time.perf_counter() - start, 1),
        rows=rows,
        skipped=benchmark.skipped,
        **about,
    )
