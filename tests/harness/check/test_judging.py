"""Judging uses only the record of a run: what kernels did comes before the bytes, then the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.case import Case
from harness.check.judging import CHECKS, judge
from harness.check.operation_run import OperationRun, Seen
from harness.check.operations.registry import expect
from harness.kernels.executors.base import AccessFault
from harness.memory import initial_image, plan_memory


@pytest.fixture
def right(make_case: Callable[..., Case]) -> OperationRun:
    """A run that did what was expected."""
    case = make_case()
    plan = plan_memory(case, 32)
    before = initial_image(case, plan)
    expected = expect(case, plan, 0, before)
    return OperationRun(case, plan, 0, before, expected, expected.image.copy(), Seen({}, {}), launches=1)


def with_everything_wrong(run: OperationRun) -> OperationRun:
    found = run.found.copy()
    found.view(run.plan.base.states[0].block(2), 1)[:] ^= 1
    fault = AccessFault("out-of-bounds", True, 0, 4, "kernel", "", "kernel", 3, (0, 0, 0), 0)
    late = replace(run.seen, late_writes=("counts",))
    return replace(run, found=found, faults=[fault], damaged=["buffer"], seen=late)


def signature(run: OperationRun) -> str | None:
    failure = judge(run)
    return None if failure is None else str(failure[0])


def test_a_right_run_is_nothing(right: OperationRun) -> None:
    assert judge(right) is None


def test_checks_come_in_their_order(right: OperationRun) -> None:
    wrong = with_everything_wrong(right)
    assert signature(wrong) == "precopy/access/out-of-bounds/guard/-"
    wrong = replace(wrong, faults=())
    assert signature(wrong) == "precopy/memory/wrong-bytes/conv/SD"
    wrong = replace(wrong, found=right.found)
    assert signature(wrong) == "precopy/host/late-write/transfer/-"
    wrong = replace(wrong, seen=right.seen)
    assert signature(wrong) == "precopy/memory/stray-write/private/-"


def test_without_an_oracle_bytes_and_results_say_nothing(right: OperationRun) -> None:
    wrong = replace(with_everything_wrong(right), expected=None, faults=())
    assert signature(wrong) == "precopy/memory/stray-write/private/-"
    assert [check.__name__ for check in CHECKS if check(wrong)] == ["private_evidence"]
