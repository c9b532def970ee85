"""Timing on a GPU: launches recorded in CUDA graphs and replayed, and the host's part of a launch alone.

A graph holds many launches, each on other memory than the ones before it, so that caches do not distort the times. Arms
take turns, so that other activity of the machine affects all of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch

from harness.bench.report import SHORTEST, Sample

Call = Callable[[], object]

WARM_UP = 3
"""Warm-up replays of each graph."""
GRAPH_SECONDS = 2e-3
"""The approximate duration of a graph: long enough to be timed, short enough to be repeated."""


def sample(times: Sequence[float]) -> Sample:
    """Median and spread of a list of microseconds. A time that would be rounded to 0 is the shortest reported one."""
    median = statistics.median(times)
    low, _, high = statistics.quantiles(times, n=4) if len(times) > 1 else (median, median, median)
    return Sample(max(round(median, 3), SHORTEST), round((high - low) / median, 4) if median else 0.0)


def time_graphs(arms: Mapping[str, Sequence[Call]], rounds: int) -> dict[str, Sample]:
    """Microseconds of one launch of each arm. An arm lists calls that do the same on different memory."""
    graphs = {name: _recorded(calls) for name, calls in arms.items()}
    times: dict[str, list[float]] = {name: [] for name in arms}
    for turn in range(WARM_UP + rounds):
        for name, (graph, launches) in graphs.items():
            seconds = _replay_seconds(graph)
            if turn >= WARM_UP:
                times[name].append(seconds / launches * 1e6)
    return {name: sample(found) for name, found in times.items()}


def time_launches(arms: Mapping[str, Sequence[Call]], rounds: int) -> dict[str, Sample]:
    """Microseconds of one launch of each arm without graphs: what the host adds counts where launches are short."""
    times: dict[str, list[float]] = {name: [] for name in arms}
    for turn in range(WARM_UP + rounds):
        for name, calls in arms.items():
            seconds = _device_seconds(calls)
            if turn >= WARM_UP:
                times[name].append(seconds / len(calls) * 1e6)
    return {name: sample(found) for name, found in times.items()}


def time_host(arms: Mapping[str, Call], rounds: int, launches: int = 100) -> dict[str, Sample]:
    """Microseconds that the host spends on one launch of each arm, independent of the device."""
    times: dict[str, list[float]] = {name: [] for name in arms}
    for call in arms.values():
        call()
    for turn in range(1 + rounds):
        for name, call in arms.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(launches):
                call()
            seconds = time.perf_counter() - start
            if turn:
                times[name].append(seconds / launches * 1e6)
    torch.cuda.synchronize()
    return {name: sample(found) for name, found in times.items()}


def time_steps(arms: Mapping[str, Call], rounds: int) -> dict[str, Sample]:
    """Microseconds from the start of a call until the device has finished it, of each arm."""
    times: dict[str, list[float]] = {name: [] for name in arms}
    for turn in range(WARM_UP + rounds):
        for name, call in arms.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            call()
            torch.cuda.synchronize()
            if turn >= WARM_UP:
                times[name].append((time.perf_counter() - start) * 1e6)
    return {name: sample(found) for name, found in times.items()}


def _recorded(calls: Sequence[Call]) -> tuple[torch.cuda.CUDAGraph, int]:
    """A graph that launches the calls in turn, and the number of launches. Running them once compiles what they
    need."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for call in calls:
        call()
    torch.cuda.synchronize()
    each = (time.perf_counter() - start) / len(calls)
    turns = max(1, min(round(GRAPH_SECONDS / each / len(calls)), -(-200 // len(calls))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(turns):
            for call in calls:
                call()
    return graph, turns * len(calls)


def _replay_seconds(graph: torch.cuda.CUDAGraph) -> float:
    return _device_seconds([graph.replay])


def _device_seconds(calls: Sequence[Call]) -> float:
    """Seconds from the start of the first call to the end of the last one, by the clock of the device."""
    start: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    end: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    start.record()
    for call in calls:
        call()
    end.record()
    end.synchronize()
    seconds: float = start.elapsed_time(end) / 1e3
    return seconds
