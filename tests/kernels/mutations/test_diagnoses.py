"""Each planted fault gets its own diagnosis, and none gets that of another: 216 findings."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.kernels.executors.registry import executor_class
from harness.kernels.mutations.registry import mutation, mutation_names
from harness.oracles.diagnosis.catalogue import BY_NAME
from tests.kernels.mutations.diagnosing import RIGHT, diagnoses_of, judged
from tests.kernels.mutations.foreign_faults import FOREIGN, Foreign

SEEDS = range(1, 9)
LEAST = len(SEEDS) - 1
"""Of these seeds, how many have to be named."""

needs_native = pytest.mark.skipif(
    executor_class("native").unavailable() is not None, reason="no executor here records accesses"
)


def test_every_mutation_has_its_deviation() -> None:
    assert sorted(RIGHT) == list(mutation_names())


@needs_native
@pytest.mark.long
@pytest.mark.parametrize("name", mutation_names())
def test_the_diagnosis_of_a_planted_fault_names_it(name: str) -> None:
    signature, diagnosis = next(diagnoses_of(mutation(name), seed=1))
    assert diagnosis is not None
    assert judged(diagnosis, RIGHT[name]) == "right", f"{signature}: {diagnosis.sentence}"


@needs_native
@pytest.mark.slow
@pytest.mark.parametrize("name", mutation_names())
def test_diagnoses_over_seeds_are_right_and_never_wrong(name: str) -> None:
    words: Counter[str] = Counter()
    for seed in SEEDS:
        signature, diagnosis = next(diagnoses_of(mutation(name), seed))
        words[judged(diagnosis, RIGHT[name])] += 1
        assert not words["wrong"], f"seed {seed}, {signature}: {diagnosis}"
    assert words["right"] >= LEAST, words


@needs_native
@pytest.mark.long
@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda foreign: foreign.mutation.name)
def test_a_fault_that_the_catalogue_lacks_gets_no_name_of_another(foreign: Foreign) -> None:
    for seed in (1, 2):
        signature, diagnosis = next(diagnoses_of(foreign.mutation, seed))
        assert diagnosis is not None, signature
        named = {name for name in diagnosis.deviations if not BY_NAME[name].loose}
        assert named <= set(foreign.right), f"seed {seed}, {signature}: {diagnosis.sentence}"
