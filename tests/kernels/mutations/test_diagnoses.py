"""Each planted fault gets its own diagnosis, and no other one: a campaign's first finding, narrowed by other cases."""

from __future__ import annotations

import pytest

from harness.check.outcome import Diagnosis
from harness.check.session import Session
from harness.check.suspects import Suspects
from harness.engines.random import Recipe, case_at
from harness.kernels.executors.registry import create_executor, executor_class
from harness.kernels.mutations.registry import mutation, mutation_names
from harness.kernels.targets.builtin import BuiltinTarget

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

CASES, MORE = 400, 24
"""How many cases may pass before the first failure, and how many are judged after it."""


def diagnosed(name: str, seed: int) -> Diagnosis | None:
    """The diagnosis of the first failing case; None for an exception, which has none."""
    executor = create_executor("native")
    session = Session(BuiltinTarget(executor, [mutation(name)]), executor)
    recipe = Recipe(
        seed=seed,
        domains=("reachable", "total"),
        operations=tuple(mutation(name).operations),  # type: ignore[arg-type]
        scale="small",
    )
    suspects, first, index = Suspects(), None, 0
    while index < CASES and (first is None or index <= first + MORE):
        outcome = session.check(case_at(recipe, index), suspects=suspects)
        failure = outcome.failure
        if failure is not None and first is None and failure.signature and failure.signature.oracle != "exception":
            first = index
        index += 1
    assert first is not None, "no case shows the fault"
    failure = session.check(case_at(recipe, first), explain=lambda signature: True, suspects=suspects).failure
    assert failure is not None
    assert failure.evidence is not None
    return failure.evidence.diagnosis


def test_every_mutation_has_its_deviation() -> None:
    assert sorted(RIGHT) == list(mutation_names())


@pytest.mark.long
@pytest.mark.parametrize("name", mutation_names())
def test_the_diagnosis_of_a_planted_fault_names_it(name: str) -> None:
    if executor_class("native").unavailable() is not None:
        pytest.skip("no executor here records accesses")
    diagnosis = diagnosed(name, seed=1)
    assert diagnosis is not None
    right = {RIGHT[name]}
    if name == "signed-address":  # a copy between such addresses is dropped, which has one more explanation
        right.add("destination-is-source")
    assert right & set(diagnosis.deviations), diagnosis.sentence
