"""Suspects: what reproduces one case is narrowed by the other cases, failing and right."""

from __future__ import annotations

from harness.check.outcome import Signature
from harness.check.suspects import MOST_CASES, MOST_RIGHT, Suspects

ONE = Signature("precopy", "memory", "wrong-bytes", "temporal", "-")
OTHER = Signature("precopy", "race", "between-programs", "conv", "SD")
SCOPE = ("precopy", "V1", "SD")


def test_alone_a_case_keeps_all_its_names() -> None:
    assert Suspects().narrowed(ONE, SCOPE, ["a", "b"]) == (("a", "b"), 0)


def test_other_cases_narrow_it() -> None:
    suspects = Suspects()
    for names in (["a", "b"], ["a", "c"], ["a", "b", "c"]):
        suspects.add(ONE, SCOPE, names)
    assert suspects.narrowed(ONE, SCOPE, ["a", "b"]) == (("a",), 3)


def test_cases_of_other_signatures_narrow_it_if_they_have_something_in_common() -> None:
    suspects = Suspects()
    suspects.add(ONE, SCOPE, ["a", "b"])
    suspects.add(OTHER, SCOPE, ["b"])
    assert suspects.narrowed(ONE, SCOPE, ["a", "b"]) == (("b",), 2)
    suspects.add(OTHER, SCOPE, ["c"])
    assert suspects.narrowed(ONE, SCOPE, ["a", "b"]) == (("a", "b"), 1)


def test_cases_with_nothing_in_common_have_no_diagnosis() -> None:
    suspects = Suspects()
    suspects.add(ONE, SCOPE, ["a"])
    suspects.add(ONE, SCOPE, ["b"])
    assert suspects.narrowed(ONE, SCOPE, ["a", "c"]) == ((), 0)


def test_what_was_right_refutes_in_its_own_scope() -> None:
    suspects = Suspects()
    assert not suspects.questionable(SCOPE)
    suspects.add(ONE, SCOPE, ["a", "b"])
    assert set(suspects.questionable(SCOPE)) == {"a", "b"}
    suspects.refute(SCOPE, ["a"])
    assert set(suspects.questionable(SCOPE)) == {"b"}
    assert suspects.narrowed(ONE, SCOPE, ["a", "b"]) == (("b",), 1)
    assert suspects.narrowed(ONE, ("precopy", "V2", "SD"), ["a", "b"]) == (("a", "b"), 1)
    suspects.refute(SCOPE, ["b"])
    assert suspects.narrowed(ONE, SCOPE, ["a", "b"]) == ((), 0)


def test_only_so_many_are_looked_at() -> None:
    suspects = Suspects()
    for _ in range(MOST_CASES):
        assert suspects.wants(ONE)
        suspects.add(ONE, SCOPE, ["a"])
    assert not suspects.wants(ONE)
    for _ in range(MOST_RIGHT):
        assert suspects.questionable(SCOPE)
        suspects.refute(SCOPE, [])
    assert not suspects.questionable(SCOPE)
