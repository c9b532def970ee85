"""Judging turns an operation run into a verdict: a chain of checks, each a function of the run. The first check that
finds something names the failure.

What kernels did comes before the bytes they left: which bytes a race or a wrong access damages is a matter of chance,
the race or access itself is not.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.check.evidence import (
    access_evidence,
    byte_evidence,
    exception_evidence,
    private_evidence,
    refused_reachable_evidence,
    result_evidence,
)
from harness.check.instrumentation import race_evidence, undefined_evidence, use_evidence
from harness.check.operation_run import OperationRun, Task
from harness.check.outcome import Evidence, Signature, SkipReason, Verdict
from harness.check.private_memory import ReserveExhausted
from harness.check.raised import compile_failure, is_refusal, is_targets, type_and_message
from harness.kernels.executors.base import ExecutorCannot, KernelDoesNotCompile
from harness.kernels.targets.base import OutsideContract, Target, TargetIncomplete, TargetLacks

CheckOfRun = Callable[[OperationRun], tuple[Signature, Evidence] | None]

CHECKS: tuple[CheckOfRun, ...] = (
    access_evidence,
    use_evidence,
    race_evidence,
    undefined_evidence,
    byte_evidence,
    result_evidence,
    private_evidence,
)

_SKIPS: tuple[tuple[type[Exception], SkipReason], ...] = (
    (TargetLacks, "lacks-operation"),
    (OutsideContract, "outside-contract"),
    (ExecutorCannot, "executor-cannot"),
)
SKIPPING = tuple(kind for kind, _ in _SKIPS)
"""Exceptions that say that a task was not done, and why."""


class HarnessError(Exception):
    """The harness itself did something impossible: exit status 4, never a finding."""


OURS = (HarnessError, TargetIncomplete, ReserveExhausted)
"""Exceptions that say that the harness is at fault."""


def judge(run: OperationRun) -> tuple[Signature, Evidence] | None:
    """The finding of the first check that has one; None if the run is right."""
    for check in CHECKS:
        failure = check(run)
        if failure is not None:
            return failure
    return None


def verdict_on(run: OperationRun, target: Target) -> Verdict:
    """The verdict on a run. Raises HarnessError if nothing was launched though there was work, and nothing is wrong."""
    failure = judge(run)
    if failure is not None:
        return _fail(run, run.launches, failure)
    expected = run.expected
    if expected is not None and expected.expects_work and run.launches == 0:
        raise HarnessError(f"{target.name} passed {run.name} without launching a kernel, though work was expected")
    return Verdict(run.name, "pass", launches=run.launches, moves=_moves(run))


def verdict_on_skip(task: Task, launches: int, error: Exception) -> Verdict:
    """The verdict where the task was not done; `error`, one of SKIPPING, says why."""
    reason = next(reason for kind, reason in _SKIPS if isinstance(error, kind))
    if reason == "outside-contract" and task.case.domain == "reachable":
        return _fail(task, launches, refused_reachable_evidence(task, error))
    return Verdict(task.name, "skip", reason=reason, detail=str(error))


def verdict_on_exception(
    task: Task, target: Target, launches: int, error: Exception, changed: Callable[[], bool]
) -> Verdict:
    """The verdict on an exception: a refusal passes in the total domain if no device memory had `changed`.

    Raises KernelDoesNotCompile, or HarnessError if no code under test had a part in the exception.
    """
    broken = compile_failure(error)
    if broken is not None:
        raise KernelDoesNotCompile(f"{target.name}: {broken}") from error
    owns = target.owns
    if not is_targets(error, owns):
        raise HarnessError(f"the harness's own code failed in {task.name}: {type_and_message(error)}") from error
    half_way = changed()
    if task.case.domain == "total" and not half_way and is_refusal(error, owns):
        return Verdict(task.name, "pass", detail=type_and_message(error))
    return _fail(task, launches, exception_evidence(task, error, owns, half_way))


def _fail(task: Task, launches: int, failure: tuple[Signature, Evidence]) -> Verdict:
    signature, evidence = failure
    return Verdict(task.name, "fail", signature=signature, evidence=evidence, launches=launches, moves=_moves(task))


def _moves(task: Task) -> int:
    return 0 if task.expected is None else len(task.expected.copies)
