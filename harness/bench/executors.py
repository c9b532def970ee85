"""The executor benchmark: one production-shaped launch on every executor that this machine has.

The launch is a precopy of 4 requests, 8 states and 16 temporal tiles: 512 programs. Ratios are to Triton's interpreter,
measured in the same run.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from harness.case import (
    Buffer,
    Case,
    Contents,
    ConvState,
    Group,
    Layer,
    Layout,
    Postprocess,
    PostprocessRow,
    Precopy,
    PrecopyRow,
    TemporalState,
)
from harness.kernel_cases.worker import CaseWorker
from harness.kernels.cache_directory import ENVIRONMENT_VARIABLE, cache_directory
from harness.worker.losses import WorkerRefused

REQUESTS, LAYERS, COLUMNS = 4, 4, 4
INTERPRETER_LAUNCHES, LAUNCHES = 3, 300


class ExecutorTimes(msgspec.Struct):
    """Median milliseconds of a launch, as a runner calls it; None where this machine cannot run that executor.

    Where races are checked, the check is part of the time.

    `cold_ms` is the first launch of a variant in a process that has compiled another one before, `cached_ms` the same
    with the variant on disk.
    """

    target: str
    programs: int
    interpreter_ms: float
    native_unchecked_ms: float
    native_checked_ms: float
    native_races_ms: float
    cuda_ms: float | None
    ratio_native_unchecked: float
    ratio_native_checked: float
    ratio_native_races: float
    cold_ms: float
    cached_ms: float


def launch_case() -> Case:
    """A case of two operations: a postprocess to warm a process up, and the precopy that is measured."""
    blocks = 1 + REQUESTS * COLUMNS
    dim, window, elements = 64, 4, 16 * 256
    conv, temporal = window * dim * 2, elements * 4
    page = conv + temporal
    layers = tuple(
        Layer(
            states=(
                ConvState(item_size=2, window=window, dim=dim, buffer=0, offset=i * page, block_stride=LAYERS * page),
                TemporalState(
                    item_size=4, shape=(elements,), buffer=0, offset=i * page + conv, block_stride=LAYERS * page
                ),
            )
        )
        for i in range(LAYERS)
    )
    table = tuple(tuple(1 + slot * COLUMNS + column for column in range(COLUMNS)) for slot in range(REQUESTS))
    running = tuple(
        PostprocessRow(slot=slot, scheduled=2, computed=5, draft=1, accepted=2, state_column=1)
        for slot in range(REQUESTS)
    )
    moving = tuple(PrecopyRow(slot=slot, source_column=0, destination_column=2, bias=1) for slot in range(REQUESTS))
    return Case(
        domain="total",
        layout=Layout(
            conv_layout="SD",
            block_size=4,
            num_spec=1,
            num_blocks=blocks,
            buffers=(Buffer(size=LAYERS * page * blocks),),
            groups=(Group(layers=layers),),
            table_rows=REQUESTS,
            table_columns=COLUMNS,
        ),
        contents=Contents(payload_seed=0, tables=(table,), owners=(-1, *(0 for _ in range(blocks - 1)))),
        program=(Postprocess(runner="V1", rows=running), Precopy(runner="V1", rows=moving)),
    )


def measure(target: str) -> ExecutorTimes:
    """Measure a target's launch. Raises WorkerRefused or WorkerError."""
    case = launch_case()
    interpreter = _seconds(target, "interpreter", (), case, INTERPRETER_LAUNCHES)
    unchecked = _seconds(target, "native", (), case, LAUNCHES)
    checked = _seconds(target, "native", ("memory",), case, LAUNCHES)
    races = _seconds(target, "native", ("memory", "races"), case, LAUNCHES)
    try:
        cuda = _median_ms(_seconds(target, "cuda", (), case, LAUNCHES))
    except WorkerRefused:
        cuda = None
    with _empty_cache():
        cold = _seconds(target, "native", ("memory",), case, 1)
        cached = _seconds(target, "native", ("memory",), case, 1)
    slow = _median_ms(interpreter)
    return ExecutorTimes(
        target=target,
        programs=REQUESTS * LAYERS * 2 * 16,
        interpreter_ms=slow,
        native_unchecked_ms=_median_ms(unchecked),
        native_checked_ms=_median_ms(checked),
        native_races_ms=_median_ms(races),
        cuda_ms=cuda,
        ratio_native_unchecked=slow / _median_ms(unchecked),
        ratio_native_checked=slow / _median_ms(checked),
        ratio_native_races=slow / _median_ms(races),
        cold_ms=cold[0] * 1e3,
        cached_ms=cached[0] * 1e3,
    )


def _seconds(target: str, executor: str, checks: tuple[str, ...], case: Case, launches: int) -> list[float]:
    """Seconds of each launch of the last operation, including the first one, in a separate process."""
    with CaseWorker(target, executor, limit=600.0, checks=checks) as worker:
        worker.wait_ready()
        return worker.time_operations(case, launches)[-1]


def _median_ms(seconds: list[float]) -> float:
    """The median in milliseconds, without the first launch, which compiles, if there are others."""
    return statistics.median(seconds[1:] or seconds) * 1e3


@contextmanager
def _empty_cache() -> Iterator[None]:
    """A temporary cache directory without compiled variants; downloaded releases are linked."""
    usual = cache_directory()
    before = os.environ.get(ENVIRONMENT_VARIABLE)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "releases").symlink_to(usual / "releases")
        os.environ[ENVIRONMENT_VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[ENVIRONMENT_VARIABLE]
            if before is not None:
                os.environ[ENVIRONMENT_VARIABLE] = before
