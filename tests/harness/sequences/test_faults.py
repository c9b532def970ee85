"""Planted faults are controls: each must be found soon, from most seeds, or a check of the state oracle is dead."""

from __future__ import annotations

import msgspec
import pytest

from harness.issues.registry import DEFAULT_FIXES
from harness.sequences.controls import Controls
from harness.sequences.faults import FAULTS
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.worker import SequenceWorker

SEEDS = 20
ENOUGH = 15
MOST_STEPS = 150


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(scheduler: SequenceWorker, name: str) -> None:
    fault = FAULTS[name]
    controls = Controls(faults=(name,), fixes=DEFAULT_FIXES)  # no fix may hide more than its issue
    found = 0
    for seed in range(SEEDS):
        pins = msgspec.structs.replace(fault.pins, runner="V1" if seed % 2 else "V2")
        steps = index = 0
        while steps < MOST_STEPS:
            result = scheduler.check(sequence_at(SequenceRecipe(seed, pins), index), controls)
            assert result.skipped is None
            steps, index = steps + result.steps, index + 1
            if result.violation is not None:
                assert not result.violation.kind.startswith(("exception", "process", "bytes", "count")), result
                found += steps <= MOST_STEPS
                break
    assert found >= ENOUGH
