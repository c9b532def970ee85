"""A scheduler that stands still is found, and shrinking keeps that."""

from __future__ import annotations

import pytest

from harness.case.sequence import Add, Segment, SequenceCase, SequenceConfig, Step
from harness.issues.registry import DEFAULT_FIXES
from harness.sequences.classifying import SequencePlan
from harness.sequences.controls import Controls
from harness.sequences.verdicts import signature_of
from harness.sequences.worker import SequenceWorker
from harness.shrink.driver import shrink

ROUNDS_DOWN = Controls(faults=("chunk-never-ends",), fixes=DEFAULT_FIXES)
NO_ROWS = "sequence/meaning/no-progress/rows/-"


def add(request: int, prompt: int) -> Add:
    return Add(request=request, prompt=(Segment(family=request, length=prompt),), outputs=4)


@pytest.mark.release
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_budget_below_a_block_where_chunks_end_at_blocks(scheduler: SequenceWorker, asynchronous: bool) -> None:
    config = SequenceConfig(
        runner="V1", asynchronous=asynchronous, block_size=8, length_limit=64, budget=6, requests=2, num_blocks=64
    )
    case = SequenceCase(config=config, events=(add(0, 20), Step(repeat=40)))
    violation = scheduler.check(case, ROUNDS_DOWN).violation
    assert violation is not None
    assert str(signature_of(violation)) == NO_ROWS
    assert violation.holds == (
        "no row for 8 steps; budget 6 tokens, 63 of 64 blocks are free; "
        "waiting: request 0 since step 1, 0 of 20 tokens computed"
    )
    right = scheduler.check(case, Controls(fixes=DEFAULT_FIXES))
    assert right.violation is None
    assert right.counters["rows"] > 0


@pytest.mark.release
def test_shrinking_keeps_it(scheduler: SequenceWorker) -> None:
    config = SequenceConfig(
        runner="V1", mamba_groups=2, block_size=8, length_limit=64, budget=20, requests=3, num_blocks=96, retention=0
    )
    events = (add(0, 16), Step(repeat=3), add(1, 20), add(2, 3), Step(repeat=30))
    case = SequenceCase(config=config, events=events)
    result = scheduler.check(case, ROUNDS_DOWN)
    assert result.violation is not None
    assert str(signature_of(result.violation)) == NO_ROWS
    shrunk = shrink(case, result, SequencePlan(scheduler, NO_ROWS, None, ROUNDS_DOWN), 400)
    assert shrunk.complete
    assert shrunk.result.violation is not None
    assert str(signature_of(shrunk.result.violation)) == NO_ROWS
    one = Add(request=2, prompt=(Segment(family=0, length=1),), outputs=1)
    assert shrunk.case.events == (one, Step(repeat=8))
