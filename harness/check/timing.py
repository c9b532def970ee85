"""Timing is how long a target's operations take, called as a runner calls them."""

from __future__ import annotations

import time

from harness.case import Case
from harness.check.operations.registry import handling
from harness.check.spans import array_spans
from harness.check.workbench import Workbench
from harness.kernels.executors.base import AllowedSpans
from harness.memory import initial_image, plan_memory
from harness.oracles.before import Before
from harness.oracles.races import find_races


def time_operations(bench: Workbench, case: Case, launches: int) -> list[list[float]]:
    """Seconds of each of `launches` calls of each operation; only races are judged."""
    executor = bench.executor
    plan = plan_memory(case, bench.target.mapping_bits)
    arena = bench.room_for(plan)
    image = initial_image(case, plan)
    arena.write_all(plan.covered, image.data)
    times: list[list[float]] = []
    for index in range(len(case.program)):
        bound, private, spans = bench.bind(plan)
        allowed = AllowedSpans(private.together_with(spans), array_spans(plan, index))
        tensors = bench.arguments(case, plan, index)
        prepared = handling(case.program[index]).prepare(bound, Before(case, plan, index, image))
        times.append([])
        for _ in range(launches):
            executor.begin(arena, allowed)
            start = time.perf_counter()
            prepared.run(tensors)
            executor.transfers.wait()
            for launch in executor.recorded():
                find_races(launch)
            arena.read(0, 1)  # a GPU is done only when something has been read back
            times[-1].append(time.perf_counter() - start)
    return times
