"""Suspects: what reproduces one case is narrowed by the other cases, failing and right."""

from __future__ import annotations

from harness.check.outcome import Signature
from harness.check.suspects import MOST_CASES, MOST_RIGHT, Suspects
from harness.oracles.diagnosis.deviation import Form

ONE = Signature("precopy", "memory", "wrong-bytes", "temporal", "-")
OTHER = Signature("precopy", "race", "between-programs", "conv", "SD")
SCOPE = ("precopy", "V1", "SD")
A, B, C = Form("a"), Form("b"), Form("c")


def test_alone_a_case_keeps_all_its_names() -> None:
    assert Suspects().narrowed(ONE, SCOPE, [A, B]) == ((A, B), 0)


def test_other_cases_narrow_it() -> None:
    suspects = Suspects()
    for names in ([A, B], [A, C], [A, B, C]):
        suspects.add(ONE, SCOPE, names)
    assert suspects.narrowed(ONE, SCOPE, [A, B]) == ((A,), 3)


def test_cases_of_other_signatures_narrow_it_if_they_have_something_in_common() -> None:
    suspects = Suspects()
    suspects.add(ONE, SCOPE, [A, B])
    suspects.add(OTHER, SCOPE, [B])
    assert suspects.narrowed(ONE, SCOPE, [A, B]) == ((B,), 2)
    suspects.add(OTHER, SCOPE, [C])
    assert suspects.narrowed(ONE, SCOPE, [A, B]) == ((A, B), 1)


def test_cases_with_nothing_in_common_have_no_diagnosis() -> None:
    suspects = Suspects()
    suspects.add(ONE, SCOPE, [A])
    suspects.add(ONE, SCOPE, [B])
    assert suspects.narrowed(ONE, SCOPE, [A, C]) == ((), 0)


def test_what_was_right_refutes_in_its_own_scope() -> None:
    suspects = Suspects()
    assert not suspects.questionable(SCOPE)
    suspects.add(ONE, SCOPE, [A, B])
    assert set(suspects.questionable(SCOPE)) == {A, B}
    suspects.refute(SCOPE, [A])
    assert set(suspects.questionable(SCOPE)) == {B}
    assert suspects.narrowed(ONE, SCOPE, [A, B]) == ((B,), 1)
    assert suspects.narrowed(ONE, ("precopy", "V2", "SD"), [A, B]) == ((A, B), 1)
    suspects.refute(SCOPE, [B])
    assert suspects.narrowed(ONE, SCOPE, [A, B]) == ((), 0)


def test_only_so_many_are_looked_at() -> None:
    suspects = Suspects()
    for _ in range(MOST_CASES):
        assert suspects.wants(ONE)
        suspects.add(ONE, SCOPE, [A])
    assert not suspects.wants(ONE)
    for _ in range(MOST_RIGHT):
        assert suspects.questionable(SCOPE)
        suspects.refute(SCOPE, [])
    assert not suspects.questionable(SCOPE)


def test_a_case_that_says_nothing_leaves_it_to_the_others() -> None:
    suspects = Suspects()
    suspects.add(ONE, SCOPE, [A, B])
    suspects.add(OTHER, SCOPE, [B])
    assert suspects.narrowed(ONE, SCOPE, None) == ((B,), 2)


def test_the_case_of_the_finding_is_not_counted_twice() -> None:
    suspects = Suspects()
    suspects.close()
    assert not suspects.wants(ONE)


def test_further_cases_choose_among_what_is_left() -> None:
    one, other = Form("one-groups-table", "0"), Form("first-group-only", "0")
    suspects = Suspects()
    assert not suspects.undecided(ONE)
    suspects.add(ONE, SCOPE, [one, other])
    left = suspects.undecided(ONE)
    assert set(left) == {one.deviation, other.deviation}
    suspects.choose_among(left, ONE)
    assert set(suspects.candidates or ()) == set(left)
    suspects.add(OTHER, SCOPE, [])  # another cause
    assert suspects.undecided(ONE) == left
    suspects.add(OTHER, SCOPE, [one])
    assert not suspects.undecided(ONE)
    assert suspects.narrowed(ONE, SCOPE, [one, other]) == ((one,), 2)


def test_a_further_case_of_the_finding_that_nothing_reproduces_ends_the_choice() -> None:
    one, other = Form("one-groups-table", "0"), Form("first-group-only", "0")
    suspects = Suspects()
    suspects.add(ONE, SCOPE, [one, other])
    suspects.choose_among(suspects.undecided(ONE), ONE)
    suspects.add(ONE, SCOPE, [])
    assert not suspects.undecided(ONE)
    assert not suspects.wants(ONE)
    assert suspects.narrowed(ONE, SCOPE, [one, other]) == ((one, other), 1)


def test_forms_of_one_family_need_no_choice() -> None:
    suspects = Suspects()
    suspects.add(ONE, SCOPE, [Form("null-block-read", "0"), Form("null-block-always", "0")])
    assert not suspects.undecided(ONE)
