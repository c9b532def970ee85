"""The mutation benchmark: how reliably and how fast planted faults are found over several seeds, and how similar the
minimal cases are.

If some seeds miss a fault, or its minimal cases differ from seed to seed, a generator or a shrinking pass is weak.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.campaign.campaign import Campaign
from harness.campaign.events import CampaignFinished, FindingFound, FindingKept
from harness.campaign.settings import Settings
from harness.case import encode_case
from harness.engines.random import Recipe
from harness.kernel_cases.subject import KernelCases
from harness.repro import Repro


class MutationScore(msgspec.Struct):
    """One mutation over all seeds. Seconds run from the start of the process to the first finding.

    `alike` is the share of findings whose minimal case is the most frequent one of its signature, over signatures that
    more than one seed found.
    """

    target: str
    seeds: int
    found: int
    median_seconds: float | None
    median_executions: float | None
    alike: float | None
    signatures: dict[str, int]


def measure(recipe: Recipe, target: str, executor: str, seeds: int, cases: int) -> MutationScore:
    """Look for one planted fault from seeds 0 .. seeds - 1, `cases` cases each. Raises WorkerRefused."""
    found, seconds, executions = 0, [], []
    minimal: dict[str, Counter[bytes]] = {}
    for seed in range(seeds):
        first = None
        for moment, event in _events(msgspec.structs.replace(recipe, seed=seed), target, executor, cases):
            if isinstance(event, FindingFound) and first is None:
                first = moment
            elif isinstance(event, FindingKept):
                assert isinstance(event.repro, Repro)
                minimal.setdefault(event.key.signature, Counter())[encode_case(event.repro.case)] += 1
                if event.repro.shrink is not None:
                    executions.append(event.repro.shrink.executions)
        if first is not None:
            found += 1
            seconds.append(first)
    shared = [counter for counter in minimal.values() if counter.total() > 1]
    return MutationScore(
        target=target,
        seeds=seeds,
        found=found,
        median_seconds=round(statistics.median(seconds), 2) if seconds else None,
        median_executions=statistics.median(executions) if executions else None,
        alike=round(sum(max(c.values()) for c in shared) / sum(c.total() for c in shared), 3) if shared else None,
        signatures={signature: counter.total() for signature, counter in sorted(minimal.items())},
    )


def _events(
    recipe: Recipe, target: str, executor: str, cases: int
) -> Iterator[tuple[float, FindingFound | FindingKept | CampaignFinished]]:
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        subject = KernelCases(target=target, executor=executor, limit=120.0, recipe=recipe)
        settings = Settings(out=Path(out), cases=cases, fail_fast=True)
        for event in Campaign(subject, settings).run():
            if isinstance(event, FindingFound | FindingKept | CampaignFinished):
                yield time.perf_counter() - start, event
