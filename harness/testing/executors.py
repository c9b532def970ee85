"""Whether an executor says of cases what another one says: the same verdicts, the same bytes, as many launches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from harness.case import Case
from harness.check.outcome import Verdict
from harness.kernel_cases.worker import CaseWorker
from harness.kernels.executors.registry import UnavailableExecutor, executor_class
from harness.testing.conformance import NotConforming
from harness.testing.variants import VARIANTS, cases_of

TARGETS = ("builtin", "builtin+wrong-group")
"""Right kernels, and wrong ones whose accesses stay within what they may touch: an executor that checks accesses keeps
other damage away, and then executors may say different things."""


class Judgement(NamedTuple):
    """Everything that an executor decides about one operation. `found` is the evidence of bytes, if any was wrong."""

    operation: str
    status: str
    reason: str | None
    signature: str
    found: object
    launches: int


def executor_agrees(
    name: str,
    targets: Sequence[str] = TARGETS,
    *,
    reference: str | None = None,
    cases: Sequence[Case] | None = None,
    limit: float = 300.0,
) -> list[Judgement]:
    """Have the executors `name` and `reference` judge `cases` of each target by their bytes; what both say of them.

    `reference` is by default the fastest other executor of the CPU that this machine has. Without `cases`: one of every
    variant of a kernel, which takes both some seconds. `limit` is seconds for one case.

    Raises NotConforming at the first case of which they say something else, or if no case shows the fault of a target
    that has one planted (`+` in its name); UnavailableExecutor if either cannot run here.
    """
    chosen = (name, reference or _other(name))
    for executor in chosen:
        reason = executor_class(executor).unavailable()
        if reason is not None:
            raise UnavailableExecutor(f"executor {executor} is not available: {reason}")
    drawn = [case for variant in VARIANTS for case in cases_of(variant, 1)] if cases is None else cases
    said: list[Judgement] = []
    for target in targets:
        ours, theirs = (list(_judgements(target, executor, drawn, limit)) for executor in chosen)
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if one != other:
                raise NotConforming(
                    f"{target}, case {index}: {chosen[0]} says {_briefly(one)}, {chosen[1]} {_briefly(other)}"
                )
        rows = [row for case in ours for row in case]
        if "+" in target and all(row.status != "fail" for row in rows):
            raise NotConforming(f"{target}: no case shows the planted fault on {chosen[0]} or {chosen[1]}")
        said += rows
    return said


def _other(name: str) -> str:
    """The fastest executor of the CPU beside `name`. Raises UnavailableExecutor if there is none."""
    for other in ("native", "interpreter"):
        if other != name and executor_class(other).unavailable() is None:
            return other
    raise UnavailableExecutor(f"no other executor is available that {name} could be compared with")


def _judgements(target: str, executor: str, cases: Sequence[Case], limit: float) -> Iterator[list[Judgement]]:
    """Of each case, with no checks but the bytes."""
    with CaseWorker(target, executor, limit=limit, checks=()) as worker:
        worker.wait_ready()
        for case in cases:
            outcome = worker.check(case)
            yield [_judgement(verdict) for verdict in outcome.verdicts]
            if not worker.alive:
                worker.restart()


def _judgement(verdict: Verdict) -> Judgement:
    evidence = verdict.evidence
    found = None if evidence is None else (evidence.differences, evidence.total_bytes, evidence.details)
    return Judgement(verdict.operation, verdict.status, verdict.reason, str(verdict.signature), found, verdict.launches)


def _briefly(rows: Sequence[Judgement]) -> str:
    return ", ".join(
        f"{row.operation} {row.status}"
        + (f" ({row.signature if row.status == 'fail' else row.reason})" if row.status != "pass" else "")
        + f" with {row.launches} launches"
        for row in rows
    )
