"""Deviations from the specification: the plain rule is the oracle, and each deviation is recognised where it is."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np
import pytest

from harness.case import Case, InvalidCase, operation_name
from harness.case.operations.results import HOST, staged_name
from harness.check.operations.registry import expect, handling
from harness.check.spans import array_spans, layout_spans
from harness.engines.random import Recipe, case_at
from harness.memory import initial_image, plan_memory
from harness.oracles.before import Before
from harness.oracles.diagnosis.catalogue import BY_NAME, CATALOGUE
from harness.oracles.diagnosis.copying import Rule, predicted
from harness.oracles.diagnosis.deviation import Deviation
from harness.oracles.diagnosis.diagnose import UNEXPLAINED, deviations_of, in_words, refuted_by
from harness.oracles.diagnosis.prediction import Prediction, results_after
from harness.oracles.diagnosis.situation import Raced, Refused, Situation, Touchable

MOVERS = ("postprocess", "precopy", "scalar-copy", "preprocess", "postprocess-entry")
OTHERS = ("advance", "scatter-accepted", "fill-accepted", "aligned-indices", "stage", "all-mode")
CASES = 24
"""Layouts that are drawn for each operation and domain."""


def situation_of(case: Case) -> Situation:
    """The first operation of a case, done right, as a checking executor sees it."""
    plan = plan_memory(case, 32)
    before = Before(case, plan, 0, initial_image(case, plan))
    expected = expect(case, plan, 0, before.image)
    allowed = [*layout_spans(plan.base), *array_spans(plan, 0)]
    rows, seed = case.layout.table_rows, np.random.default_rng(1)
    names = {**expected.results}
    names |= {name.replace("device", HOST, 1): {} for name in expected.results if name.startswith("device")}
    sizes = {name: max([rows, *(entry + 1 for entry in entries)]) for name, entries in names.items()}
    results = {name: seed.integers(100, 10**6, size) for name, size in sizes.items()}
    situation = Situation(
        before=before,
        operation=case.program[0],
        expected=expected,
        found=expected.image,
        results=results,
        found_results=results,
        expect=lambda operation: handling(operation).expect(before),
        touchable=[Touchable(span.start, span.size, span.writable) for span in allowed],
        watched=True,
    )
    return dataclasses.replace(situation, found_results=results_after(situation))


@functools.cache
def drawn(operation: str, domain: str) -> tuple[Situation, ...]:
    recipe = Recipe(seed=3, domains=(domain,), operations=(operation,), scale="small")  # type: ignore[arg-type]
    cases = (case_at(recipe, index) for index in range(0, 16 * CASES, 13))
    small = (case for case in cases if operation_name(case.program[0]) == operation)
    found = []
    for case in small:
        try:
            found.append(situation_of(case))
        except InvalidCase:
            continue
    return tuple(found)


def all_drawn() -> Iterator[Situation]:
    for operation in (*MOVERS, *OTHERS):
        for domain in ("reachable", "total"):
            yield from drawn(operation, domain)


def as_found(situation: Situation, prediction: Prediction) -> Situation:
    """The situation after a deviation, as an executor that watches would report it."""
    return dataclasses.replace(
        situation,
        found=prediction.image,
        found_results=prediction.results,
        refused=[Refused(first, 1, False) for first, _ in prediction.outside],
        races=[Raced(first, "programs") for first, _ in prediction.raced]
        + [Raced(first, "warps") for first, _ in prediction.raced_by_warps],
        late_writes=["view"] if prediction.late_writes else [],
    )


@pytest.mark.parametrize("domain", ["reachable", "total"])
@pytest.mark.parametrize("operation", MOVERS)
def test_the_plain_rule_is_the_oracle(operation: str, domain: str) -> None:
    for situation in drawn(operation, domain):
        prediction = predicted(situation, Rule())
        assert np.array_equal(prediction.image.data, situation.expected.image.data)
        assert not prediction.outside
        assert not prediction.raced


@pytest.mark.parametrize("operation", [*MOVERS, *OTHERS])
def test_what_is_right_has_no_diagnosis(operation: str) -> None:
    for situation in drawn(operation, "total")[:8]:
        assert deviations_of(situation) == ()


def test_a_byte_that_no_deviation_changes_stays_unexplained() -> None:
    for situation in drawn("precopy", "total")[:8]:
        found = situation.expected.image.copy()
        found.data[100] ^= 1  # the guard in front of the first buffer
        assert deviations_of(dataclasses.replace(situation, found=found)) == ()
    assert in_words(()) == UNEXPLAINED


def shown(deviation: Deviation) -> Situation | None:
    """A drawn case in which a deviation makes a difference, after it."""
    if deviation.name == "view-written-late":
        situation = drawn("stage", "total")[0]
        return dataclasses.replace(situation, late_writes=["view"])
    for situation in all_drawn():
        for prediction in deviation.predict(situation):
            if prediction.deviates(situation) and not (prediction.unsettled is not None and prediction.unsettled.all()):
                return as_found(situation, prediction)
    return None


FITTED = ("signed-address", "narrow-offset", "part-lost", "whole-view-sent", "another-accepted-count")
"""Their numbers come from what was found, or they need addresses that few cases have: the mutations show them."""


@pytest.mark.parametrize("name", [name for name in BY_NAME if name not in FITTED])
def test_each_deviation_is_recognised_where_it_is(name: str) -> None:
    situation = shown(BY_NAME[name])
    assert situation is not None, "no drawn case shows it"
    names = deviations_of(situation)
    assert name in names
    assert name in in_words([name])
    assert "byte for byte" in in_words(names)


def test_whole_views_are_recognised_by_what_reached_the_device() -> None:
    situation = drawn("stage", "total")[0]
    results = dict(situation.found_results)
    results[staged_name("device", "computed")] = results[staged_name(HOST, "computed")]
    assert "whole-view-sent" in deviations_of(dataclasses.replace(situation, found_results=results))


def test_an_operation_that_was_right_refutes_what_it_would_have_shown() -> None:
    situation = next(one for one in drawn("precopy", "reachable") if one.moves)
    assert refuted_by(situation, ["nothing-moved", "reset-lost"]) == ("nothing-moved",)


def test_names_are_used_once() -> None:
    assert len(BY_NAME) == len(CATALOGUE)
