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
from harness.oracles.diagnosis.copying import Rule, Runs, _shared, predicted
from harness.oracles.diagnosis.deviation import Deviation, Form
from harness.oracles.diagnosis.diagnose import UNEXPLAINED, deviations_of, in_words, names_of, refuted_by
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
        assert deviations_of(situation) is None


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


def names_found(situation: Situation) -> tuple[str, ...]:
    return names_of(deviations_of(situation) or ())


FITTED = ("signed-address", "narrow-offset", "part-lost", "whole-view-sent", "another-accepted-count")
"""Their numbers come from what was found, or they need addresses that few cases have: the mutations show them."""


@pytest.mark.parametrize("name", [name for name in BY_NAME if name not in FITTED])
def test_each_deviation_is_recognised_where_it_is(name: str) -> None:
    situation = shown(BY_NAME[name])
    assert situation is not None, "no drawn case shows it"
    names = names_found(situation)
    assert name in names
    assert name in in_words([name])
    assert "byte for byte" in in_words(names)


def test_whole_views_are_recognised_by_what_reached_the_device() -> None:
    situation = drawn("stage", "total")[0]
    results = dict(situation.found_results)
    results[staged_name("device", "computed")] = results[staged_name(HOST, "computed")]
    assert "whole-view-sent" in names_found(dataclasses.replace(situation, found_results=results))


def test_an_operation_that_was_right_refutes_what_it_would_have_shown() -> None:
    situation = next(one for one in drawn("precopy", "reachable") if one.moves)
    forms = [Form("nothing-moved"), Form("reset-lost"), Form("nothing-moved", "of another kind")]
    assert refuted_by(situation, forms) == (Form("nothing-moved"),)


def test_a_deviation_is_one_form_at_a_time() -> None:
    """A column further on in one case and a column before in another is no single deviation."""
    situation = next(one for one in drawn("precopy", "total") if shifted(one, 1) != shifted(one, -1) != ())
    assert shifted(situation, 1)[0].deviation == shifted(situation, -1)[0].deviation
    assert not set(shifted(situation, 1)) & set(shifted(situation, -1))
    assert names_of([*shifted(situation, 1), *shifted(situation, -1)]) == ("destination-column-off",)


def shifted(situation: Situation, columns: int) -> tuple[Form, ...]:
    """The forms of one deviation that reproduce states which were written some columns further on."""
    rule = Rule(destination_column=lambda place, move: move.move.destination + columns)
    found = as_found(situation, predicted(situation, rule))
    return BY_NAME["destination-column-off"].reproducing(found)


def test_copies_of_which_one_reads_what_another_writes_need_no_race() -> None:
    """One program may make both, in order."""
    for situation in drawn("precopy", "total"):
        watched = dataclasses.replace(situation, races_watched=True)
        for prediction in BY_NAME["one-requests-destination-row"].predict(watched):
            if prediction.settled and prediction.deviates(watched):
                first, second = prediction.settled
                for image in (first, second):
                    assert prediction.reproduces(dataclasses.replace(watched, found=image))
                other = first.copy()
                other.view(prediction.raced[0][0], 1)[:] ^= 1
                assert not prediction.reproduces(dataclasses.replace(watched, found=other))
                return
    raise AssertionError("no drawn case has such copies")


def test_rows_between_each_other_are_not_shared() -> None:
    reader = Runs(source=100, destination=500, run_bytes=2, runs=3, stride=8)
    assert _shared(reader, Runs(source=0, destination=102, run_bytes=6, runs=3, stride=8)) == []
    assert _shared(reader, Runs(source=0, destination=109, run_bytes=2, runs=1)) == [(109, 110)]
    assert _shared(reader, Runs(source=0, destination=100, run_bytes=1, runs=2, stride=8)) == [(100, 101), (108, 109)]
    plain = Runs(source=100, destination=500, run_bytes=10)
    assert _shared(plain, Runs(source=0, destination=106, run_bytes=10)) == [(106, 110)]


def test_names_are_used_once() -> None:
    assert len(BY_NAME) == len(CATALOGUE)
