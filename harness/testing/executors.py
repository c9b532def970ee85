"""Whether two executors agree on cases: the same verdicts, the same bytes, the same number of launches."""

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
"""Correct kernels, and wrong ones without out-of-bounds accesses: an executor that checks accesses prevents the damage
of those, so that executors may disagree."""


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
    """Let the executors `name` and `reference` judge `cases` of each target by their bytes. Returns their common
    judgements.

    `reference` is by default the fastest other executor of the CPU that this machine has. Without `cases`: one of every
    variant of a kernel, which takes both some seconds. `limit` is the maximum number of seconds for one case.

    Raises NotConforming at the first case on which they disagree, or if no case shows the fault of a target that has
    one planted (`+` in its name); UnavailableExecutor if one of them cannot run here.
    """
    chosen = (name, reference or _other(name))
    for executor in chosen:
        reason = executor_class(executor).unavailable()
        if reason is not None:
            raise UnavailableExecutor(f"executor {executor} is not available: {reason}")
    drawn = [case for variant in VARIANTS for case in cases_of(variant, 1)] if cases is None else cases
    judgements: list[Judgement] = []
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
        judgements += rows
    return judgements


def _other(name: str) -> str:
    """The fastest executor of the CPU other than `name`. Raises UnavailableExecutor if there is none."""
    for other in ("native", "interpreter"):
        if other != name and executor_class(other).unavailable() is None:
            return other
    raise UnavailableExecutor(f"no other executor is available that {name} could be compared with")


def _judgements(target: str, executor: str, cases: Sequence[Case], limit: float) -> Iterator[list[Judgement]]:
    """The judgements of each case, by the bytes alone."""
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
