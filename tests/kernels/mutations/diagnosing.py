"""What a campaign says of a fault: the diagnoses of its findings, as a worker concludes them.

    python -m tests.kernels.mutations.diagnosing [--seeds 20] [--findings 3] [MUTATION ...]

counts, for each planted mutation, how many diagnoses are right, name several families, say that nothing known explains
the finding, and are wrong.
"""

from __future__ import annotations

import argparse
import itertools
from collections import Counter
from collections.abc import Iterator

from harness.check.outcome import Diagnosis, Signature
from harness.check.session import Session
from harness.engines.random import CASES_PER_LAYOUT, Recipe, case_at
from harness.kernel_cases.diagnosing import looked_at, narrowed
from harness.kernels.executors.registry import create_executor
from harness.kernels.mutations.mutation import Mutation
from harness.kernels.mutations.registry import mutation, mutation_names
from harness.kernels.targets.builtin import BuiltinTarget
from harness.oracles.diagnosis.catalogue import BY_NAME
from harness.subject.subject import MOST_FAILING, MOST_IN_BLOCK

CASES, MORE = 1200, 64
"""How many cases may pass before the first failure, and how many are judged after it."""

RIGHT = {
    "advance-resets-fresh": "fresh-counts-reset",
    "batch-row-for-slot": "batch-row-for-slot",
    "conv-shift-off-by-one": "window-bias-off-by-one",
    "count-stays-behind": "first-count-not-copied",
    "ds-as-sd": "ds-as-sd",
    "fills-zero": "filled-zero",
    "forgets-column": "columns-of-resumed-kept",
    "ignores-skip": "skip-ignored",
    "indices-wrong-column": "full-block-in-next-column",
    "int32-offset": "narrow-offset",
    "late-host-write": "view-written-late",
    "list-cut-short": "last-copy-left-out",
    "lost-reset": "reset-lost",
    "missing-barrier": "unordered-overlap",
    "never-written": "null-block-read",
    "remembers-prefills": "columns-of-prefills-kept",
    "scatters-zero": "scattered-zero",
    "shared-destination": "one-requests-destination-row",
    "signed-address": "signed-address",
    "stages-too-many": "whole-view-sent",
    "stale-accept": "count-read-after-reset",
    "stale-cell": "column-from-the-end",
    "tail-dropped": "tail-lost",
    "temporal-size": "size-by-stride",
    "unordered-shift": "unordered-overlap",
    "wrong-destination": "destination-is-source",
    "wrong-group": "one-groups-table",
}
"""The deviation that is planted, by mutation."""


def diagnoses_of(planted: Mutation, seed: int) -> Iterator[tuple[Signature, Diagnosis | None]]:
    """The findings of a short campaign in the order of their first cases, each with its diagnosis."""
    executor = create_executor("native")
    session = Session(BuiltinTarget(executor, [planted]), executor)
    recipe = Recipe(
        seed=seed,
        domains=("reachable", "total"),
        operations=tuple(planted.operations),  # type: ignore[arg-type]
        scale="small",
    )
    failing: dict[Signature, list[int]] = {}
    index, last = 0, CASES
    while index < last:
        failure = session.check(case_at(recipe, index)).failure
        if failure is not None and failure.signature is not None and failure.signature.oracle != "exception":
            last = last if failing else index + MORE
            failing.setdefault(failure.signature, []).append(index)
        index += 1
    for signature, numbers in failing.items():
        numbers.sort(key=lambda index: (recipe.domain(index) != "reachable", index))
        in_layout: Counter[int] = Counter()
        first = []
        for index in numbers:
            in_layout[index // CASES_PER_LAYOUT] += 1
            if in_layout[index // CASES_PER_LAYOUT] <= MOST_IN_BLOCK:
                first.append(index)
        suspects = narrowed(session, lambda number: case_at(recipe, number), looked_at(first[:MOST_FAILING]))
        outcome = session.check(case_at(recipe, numbers[0]), explain=lambda signature: True, suspects=suspects)
        verdict = outcome.failure
        assert verdict is not None
        assert verdict.evidence is not None
        yield signature, verdict.evidence.diagnosis


def judged(diagnosis: Diagnosis | None, right: str) -> str:
    """`right`, `several`, `unexplained` or `wrong`. What is fitted to what was found explains nothing."""
    if diagnosis is None or all(BY_NAME[name].loose for name in diagnosis.deviations):
        return "unexplained"
    if diagnosis.families == (BY_NAME[right].family,):
        return "right"
    return "several" if len(diagnosis.families) > 1 else "wrong"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mutations", nargs="*", metavar="MUTATION", help="default: all of them")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--findings", type=int, default=3, help="of each campaign, the first ones")
    asked = parser.parse_args()
    total: Counter[str] = Counter()
    for name in asked.mutations or mutation_names():
        first: Counter[str] = Counter()
        every: Counter[str] = Counter()
        for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
            findings = itertools.islice(diagnoses_of(mutation(name), seed), asked.findings)
            for number, (signature, diagnosis) in enumerate(findings):
                word = judged(diagnosis, RIGHT[name])
                every[word] += 1
                first[word] += number == 0
                if word != "right":
                    said = "none" if diagnosis is None else ", ".join(diagnosis.deviations) or diagnosis.sentence
                    print(f"  {name}, seed {seed}, {signature}: {word}: {said}", flush=True)
        total += every
        print(f"{name}: first findings {dict(first)}, all {dict(every)}", flush=True)
    print(f"{total.total()} findings: {dict(total)}")


if __name__ == "__main__":
    main()
