"""The throughput benchmark: whole cases a second, by checks, and how the time is spent."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

import msgspec

from harness.campaign.campaign import Campaign
from harness.campaign.events import CampaignFinished, CaseJudged
from harness.campaign.settings import Settings
from harness.engines.random import CheckPolicy, Recipe
from harness.generators.cases import KindName
from harness.kernel_cases.subject import KernelCases
from harness.kernel_cases.summary import CaseSummary

WARM_UP_CASES = 320


class Throughput(msgspec.Struct):
    """Whole cases a second of all workers together; `share` is the share of each phase in a worker's time."""

    target: str
    executor: str
    workers: int
    checks: CheckPolicy
    cases: int
    seconds: float
    cases_per_second: float
    share: dict[str, float]


def measure(
    target: str,
    executor: str,
    *,
    checks: CheckPolicy,
    workers: int,
    seconds: float,
    operations: tuple[KindName, ...],
) -> Throughput:
    """Judge random cases of both domains for `seconds`, after a warm-up on other cases. Raises WorkerRefused."""
    spent: dict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory() as out:
        for seed, cases in ((1, WARM_UP_CASES * workers), (0, None)):
            spent.clear()
            recipe = Recipe(
                seed=seed, domains=("reachable", "total"), operations=operations, scale="full", checks=checks
            )
            subject = KernelCases(target=target, executor=executor, limit=120.0, recipe=recipe)
            settings = Settings(
                out=Path(out), cases=cases, seconds=None if cases else seconds, workers=workers, shrink=False
            )
            for event in Campaign(subject, settings).run():
                if isinstance(event, CaseJudged):
                    spent["draw"] += event.drawn
                    for phase, took in msgspec.structs.asdict(event.result.outcome.seconds).items():
                        spent[phase] += took
                elif isinstance(event, CampaignFinished):
                    assert isinstance(event.summary, CaseSummary)
                    summary = event.summary
    total = sum(spent.values())
    return Throughput(
        target=target,
        executor=executor,
        workers=workers,
        checks=checks,
        cases=summary.cases,
        seconds=summary.seconds,
        cases_per_second=summary.cases_per_second,
        share={name: round(spent[name] / total, 3) for name in ("draw", "build", "run", "oracle", "compare")},
    )
