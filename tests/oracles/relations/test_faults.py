"""Each relation sees a fault that no single run shows, and no other relation does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case import Case, operation_name
from harness.check.session import Session
from harness.oracles.relations.registry import relations

ONLY = [
    ("identity-mapping", "mapped-bias", "precopy", "V1", "differs/temporal/-"),
    ("identity-mapping", "mapped-count", "postprocess", "V1", "result-differs/accepted/-"),
    ("scalar-path", "listed-tail", "precopy", "V1", "differs/temporal/-"),
    ("request-order", "ascending-slots", "precopy", "V2", "differs/temporal/-"),
    ("single-requests", "one-request", "precopy", "V2", "differs/temporal/-"),
    ("block-names", "ascending-blocks", "precopy", "V2", "differs/temporal/-"),
    ("temporal-tiles", "twenty-programs", "precopy", "V2", "differs/temporal/-"),
    ("conv-layouts", "dim-first-tail", "precopy", "V2", "differs/conv/SD"),
    ("conv-layouts", "dim-first-memory", "step", "V2", "differs/conv/SD"),
    ("repetition", "memory-of-calls", "precopy", "V2", "differs/temporal/-"),
]


def failing(new_session: Callable[[], Session], case: Case) -> dict[str, str]:
    """The signature of each relation that is violated; a case that fails alone does not show such a fault.

    Each relation has a separate session: a fault may depend on earlier calls.
    """
    found = {}
    for name in relations():
        outcome = new_session().check(case, (name,))
        statuses = [verdict.status for verdict in outcome.verdicts]
        assert statuses == ["pass"] * len(case.program), outcome.signature
        if outcome.signature is not None:
            found[name] = str(outcome.signature)
    return found


@pytest.mark.long
@pytest.mark.parametrize(("name", "fault", "operation", "runner", "signed"), ONLY)
def test_only_one_relation_sees_the_fault(
    session_with: Callable[..., Session],
    make: Callable[..., Case],
    name: str,
    fault: str,
    operation: str,
    runner: str,
    signed: str,
) -> None:
    case = make(operation, runner)
    signature = f"{operation_name(case.program[0])}/relation:{name}/{signed}"
    assert failing(lambda: session_with(fault), case) == {name: signature}


@pytest.mark.parametrize("poison", ["A", "B"])
def test_only_poison_patterns_see_a_decision_based_on_an_unwritten_bit(
    session_with: Callable[..., Session], make: Callable[..., Case], poison: str
) -> None:
    """The bit is the same in every ordinary run, so that one of the two faults never shows without the relation."""
    case = make("precopy", "V2", poison)
    hidden = [bit for bit in (0, 1) if session_with(f"unfilled-{bit}").check(case).failure is None]
    assert len(hidden) == 1
    found = failing(lambda: session_with(f"unfilled-{hidden[0]}"), case)
    assert found == {"poison-patterns": "precopy/relation:poison-patterns/wrong-bytes/temporal/-"}


def test_a_forward_pass_in_the_other_layout_leaves_the_same_elements(
    session_with: Callable[..., Session], make: Callable[..., Case]
) -> None:
    outcome = session_with().check(make("step", "V2"), ("conv-layouts",))
    assert [verdict.status for verdict in (*outcome.verdicts, *outcome.relations)] == ["pass"] * 4


def test_every_relation_has_a_fault() -> None:
    assert {name for name, *_ in ONLY} | {"poison-patterns"} == set(relations())


@pytest.mark.parametrize("operation", ["precopy", "postprocess"])
@pytest.mark.parametrize("runner", ["V1", "V2"])
def test_without_a_fault_every_relation_is_defined_and_holds(
    session_with: Callable[..., Session], make: Callable[..., Case], operation: str, runner: str
) -> None:
    outcome = session_with().check(make(operation, runner), tuple(relations()))
    expected = dict.fromkeys(relations(), "pass")
    if (operation, runner) != ("precopy", "V1"):  # nothing else has a scalar path
        expected["scalar-path"] = "skip"
    assert {verdict.relation: verdict.status for verdict in outcome.relations} == expected
