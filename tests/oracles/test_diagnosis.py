"""Deviations from the specification: the plain rule is the oracle, and each deviation is recognised where it is."""

from __future__ import annotations

import dataclasses
import functools
import itertools
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
from harness.oracles.diagnosis.copying import Rule, Runs, _read_and_written, _shared, _word_across, predicted
from harness.oracles.diagnosis.deviation import Deviation, Form
from harness.oracles.diagnosis.diagnose import (
    UNEXPLAINED,
    deviations_of,
    fitted_numbers,
    in_words,
    names_of,
    refuted_by,
)
from harness.oracles.diagnosis.prediction import Prediction, results_after
from harness.oracles.diagnosis.situation import Raced, Refused, Situation, Touchable
from harness.oracles.diagnosis.sizes import _part_in_words

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


LOOSE = [one.name for one in CATALOGUE if one.loose]


@pytest.mark.parametrize("name", LOOSE)
def test_a_fitted_number_is_said(name: str) -> None:
    """Which number it was, not only that there is one."""
    situation, numbers = fitted_example(name)
    assert names_found(situation) == (name,)
    assert fitted_numbers(situation, [name]) == numbers
    assert f", with a number fitted to it (here {numbers}): that gives " in in_words([name], fitted=numbers)
    exact = next(one.name for one in CATALOGUE if not one.loose)
    assert fitted_numbers(situation, [name, exact]) == "", "what is exact explains it"


def fitted_example(name: str) -> tuple[Situation, str]:
    """A case that only a loose deviation explains, and its numbers."""
    if name == "part-lost":
        return without_last_part()
    loose = BY_NAME[name]
    for situation in all_drawn():
        for prediction in loose.predict(situation):
            found = as_found(situation, prediction)
            if prediction.deviates(situation) and names_found(found) == (name,):
                return found, loose.fitted(found)
    raise AssertionError(f"no drawn case shows {name}")


def without_last_part() -> tuple[Situation, str]:
    """One copy of a temporal state without the last of its four parts."""
    for situation in all_drawn():
        copies = [copy for copy in situation.expected.copies if copy.runs == 1 and copy.run_bytes % 4 == 0]
        if len(situation.expected.copies) == 1 and len(copies) == 1 and copies[0].run_bytes >= 64:
            (copy,) = copies
            first, size = copy.run_bytes // 4 * 3, copy.run_bytes // 4
            image = situation.expected.image.copy()
            old = situation.before.image.view(copy.destination + first, size)
            image.view(copy.destination + first, size)[:] = old
            part = f"bytes {first} to {copy.run_bytes - 1} of {copy.run_bytes}, the last of 4 equal parts,"
            found = dataclasses.replace(situation, found=image)
            if names_found(found) == ("part-lost",):
                return found, f"{part} for block {copy.destination_block}"
    raise AssertionError("no drawn case has such a copy")


@pytest.mark.parametrize(
    ("first", "length", "words"),
    [
        (0, 64, "bytes 0 to 63 of 1024, the first of 16 equal parts,"),
        (961, 62, "bytes 961 to 1022 of 1024, the last of 16 equal parts,"),
        (256, 256, "bytes 256 to 511 of 1024, number 2 of 4 equal parts,"),
        (100, 256, "bytes 100 to 355 of 1024"),
        (8, 1016, "bytes 8 to 1023 of 1024"),
    ],
)
def test_the_part_of_a_copy_in_words(first: int, length: int, words: str) -> None:
    assert _part_in_words(slice(first, first + length), 1024) == words


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


def test_what_refused_accesses_leave_open_is_open_without_a_race_too() -> None:
    for situation in drawn("precopy", "total"):
        watched = dataclasses.replace(situation, races_watched=True)
        for prediction in BY_NAME["size-by-stride"].predict(watched):
            if not prediction.raced or not prediction.outside:
                continue
            assert prediction.vague is not None
            assert not prediction.vague.all()
            found = dataclasses.replace(as_found(watched, prediction), races=[])
            vague, certain = (np.flatnonzero(chosen)[0] for chosen in (prediction.vague, ~prediction.vague))
            assert prediction.reproduces(with_byte_changed(found, vague))
            assert not prediction.reproduces(with_byte_changed(found, certain))
            return
    raise AssertionError("no drawn case has such copies")


def with_byte_changed(situation: Situation, index: int) -> Situation:
    image = situation.found.copy()
    image.data[index] ^= 1
    return dataclasses.replace(situation, found=image)


def test_a_word_across_two_objects_that_touch_may_be_refused() -> None:
    recipe = Recipe(seed=20, domains=("reachable", "total"), operations=("postprocess", "precopy"), scale="small")
    situation = situation_of(case_at(recipe, 117))
    prediction = next(iter(BY_NAME["size-by-stride"].predict(situation)))
    found = as_found(situation, prediction)
    seam = prediction.seams[0]
    assert prediction.reproduces(found), "narrower words do not lie across it"
    across = Refused(seam - 4, 8, True)
    assert prediction.reproduces(dataclasses.replace(found, refused=[*found.refused, across]))
    assert not prediction.reproduces(dataclasses.replace(found, refused=[across])), "some must be outside"
    for other in (Refused(seam, 8, True), Refused(seam - 8, 8, True)):
        assert not prediction.reproduces(dataclasses.replace(found, refused=[*found.refused, other]))
    # Bytes of the word may be as they were before; those next to the widest word may not.
    whole = found.found.copy()
    whole.view(seam - 4, 8)[:] = situation.before.image.view(seam - 4, 8)
    assert prediction.reproduces(dataclasses.replace(found, found=whole))
    for place in (seam - 17, seam + 16):
        changed = found.found.copy()
        changed.view(place, 1)[:] ^= 1
        assert not prediction.reproduces(dataclasses.replace(found, found=changed))


def test_words_across_a_seam_are_at_multiples_of_their_width() -> None:
    assert _word_across(place=12, start=0, apart=0, size=64) == slice(0, 16)
    assert _word_across(place=12, start=0, apart=8, size=64) == slice(8, 16)
    assert _word_across(place=12, start=0, apart=8, size=14) is None
    assert _word_across(place=12, start=3, apart=0, size=64) == slice(5, 13), "a wider one begins before the run"
    assert _word_across(place=16, start=0, apart=0, size=64) is None


def test_objects_that_touch_have_a_seam_and_those_that_overlap_have_none() -> None:
    spans = [Touchable(start, size, True) for start, size in ((40, 10), (0, 20), (10, 30), (60, 5), (50, 0))]
    situation = dataclasses.replace(drawn("precopy", "total")[0], touchable=spans)
    assert situation.seams.tolist() == [40]


def test_one_warp_that_shifts_words_before_the_bytes_at_their_ends_shifts_in_no_order() -> None:
    for situation in drawn("scalar-copy", "total"):
        watched = dataclasses.replace(situation, races_watched=True)
        for prediction in BY_NAME["unordered-overlap"].predict(watched):
            right, by_words = prediction.settled
            (wrong,) = np.nonzero(right.data != by_words.data)
            if not len(wrong):
                continue
            assert len(wrong) < 8
            found = dataclasses.replace(watched, found=by_words)
            assert "unordered-overlap" in names_found(found)
            assert "unordered-overlap" not in names_found(with_byte_changed(found, int(wrong[0])))
            return
    raise AssertionError("no drawn case has such a window")


def test_rows_between_each_other_are_not_shared() -> None:
    reader = Runs(source=100, destination=500, run_bytes=2, runs=3, stride=8)
    assert _shared(reader, Runs(source=0, destination=102, run_bytes=6, runs=3, stride=8)) == []
    assert _shared(reader, Runs(source=0, destination=109, run_bytes=2, runs=1)) == [(109, 110)]
    assert _shared(reader, Runs(source=0, destination=100, run_bytes=1, runs=2, stride=8)) == [(100, 101), (108, 109)]
    plain = Runs(source=100, destination=500, run_bytes=10)
    assert _shared(plain, Runs(source=0, destination=106, run_bytes=10)) == [(106, 110)]


def test_names_are_used_once() -> None:
    assert len(BY_NAME) == len(CATALOGUE)


def test_what_one_copy_reads_and_another_one_writes_is_found_among_many() -> None:
    """Only near copies are looked at; the answer is that of looking at all pairs."""
    random = np.random.default_rng(5)
    for _ in range(200):
        starts, sizes = random.integers(0, 400, (20, 2)).tolist(), random.integers(1, 12, (20, 2)).tolist()
        copies = [Runs(*start, size, 1 + rows % 3, 12) for start, (size, rows) in zip(starts, sizes, strict=True)]
        all_pairs = [
            (shared, tuple(place + reader.destination - reader.source for place in shared))
            for reader, writer in itertools.permutations(copies, 2)
            if reader.source < writer.destination + writer.span and writer.destination < reader.source + reader.span
            for shared in _shared(reader, writer)
        ]
        assert sorted(_read_and_written(copies)) == sorted(all_pairs)
        assert all_pairs
