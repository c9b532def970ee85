"""Whether a target does what the oracles say, for every kind of operation and in both domains, through the executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, get_args

from harness.case import Case, Domain
from harness.check.outcome import Verdict
from harness.engines.random import Recipe, case_at
from harness.generators.kinds.kind import KindName
from harness.generators.kinds.registry import KINDS
from harness.kernel_cases.worker import CaseWorker
from harness.kernels.executors.registry import default_executor_name
from harness.testing.conformance import NotConforming
from harness.worker.losses import WorkerError

OPERATIONS: tuple[KindName, ...] = tuple(KINDS)


class Answer(NamedTuple):
    """Counts for the operations of one kind: how many were judged, how many the target lacks, how many it refused or
    its own contract excludes (only in the total domain), and how often it launched a kernel."""

    judged: int
    lacking: int
    refused: int
    launches: int


STEP = 8
"""From one judged case of a recipe to the next: sixteen in a row share a layout."""


def target_conforms(
    text: str,
    *,
    executor: str | None = None,
    operations: Sequence[KindName] = OPERATIONS,
    cases: int = 32,
    limit: float = 120.0,
) -> dict[KindName, Answer]:
    """Judge a target on `cases` cases of each kind of operation in each domain. Returns the counts of each kind.

    A target conforms if no case fails; if it accepts every reachable case whose operation it has (in the total domain
    its own contract may exclude cases); if the executor sees a launch whenever there is work; and if the same case
    gives the same verdicts a second time. `executor` is by default the fastest one here, `limit` is the maximum number
    of seconds for one operation.

    Raises NotConforming at the first case that violates this, UnavailableExecutor, and WorkerRefused if there is no
    such target. A planted fault (`+`) is a failure like any other.
    """
    answers: dict[KindName, Answer] = {}
    with CaseWorker(text, executor or default_executor_name(), limit=limit) as worker:
        worker.wait_ready()
        for operation in operations:
            verdicts: list[Verdict] = []
            for domain in get_args(Domain):
                recipe = Recipe(seed=3, domains=(domain,), operations=(operation,), scale="full")
                for index in range(0, cases * STEP, STEP):
                    where = f"{text}, {operation}, {domain} case {index}"
                    verdicts += _verdicts(worker, case_at(recipe, index), where)
            judged = [one for one in verdicts if (one.operation, one.status) == (operation, "pass") and not one.refused]
            lacking = sum(one.reason == "lacks-operation" for one in verdicts)
            refused = sum(one.refused or one.reason == "outside-contract" for one in verdicts)
            answers[operation] = Answer(len(judged), lacking, refused, sum(one.launches for one in judged))
    return answers


def _verdicts(worker: CaseWorker, case: Case, where: str) -> Sequence[Verdict]:
    """The verdicts on a case, none of which is a failure. Raises NotConforming."""
    try:
        outcome = worker.check(case)
        failure = outcome.failure
        if failure is not None and failure.evidence is not None:
            raise NotConforming(f"{where}: {failure.signature}: {failure.evidence.summary}")
        again = worker.check(case)
    except WorkerError as error:
        raise NotConforming(f"{where}: {str(error).strip().splitlines()[-1]}") from error
    if again.verdicts != outcome.verdicts:
        raise NotConforming(f"{where}: a different verdict the second time")
    return outcome.verdicts
