"""Relations over drawn cases: right kernels satisfy all of them, and each is defined often enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.case.operations import SKIP_ROW
from harness.check.session import Session
from harness.engines.random import Recipe, case_at
from harness.generators.kinds.kind import KindName
from harness.oracles.relations.registry import relations
from harness.repro import Repro, read_repro

CASES = 96

AROUND = {
    "stage": {"block-names"},
    "scalar-copy": {"scalar-path", "request-order", "single-requests", "block-names", "conv-layouts"},
    "postprocess-entry": {"identity-mapping", "request-order", "single-requests", "block-names", "conv-layouts"},
    "preprocess": {
        "identity-mapping",
        "scalar-path",
        "request-order",
        "single-requests",
        "block-names",
        "conv-layouts",
    },
    "advance": {"request-order", "single-requests", "block-names"},
    "aligned-indices": {"block-names"},
    "scatter-accepted": {"request-order", "single-requests", "block-names"},
    "fill-accepted": {"request-order", "single-requests", "block-names"},
    "all-mode": {"block-names"},
}
"""Relations of the operations around the kernels, in addition to those that hold for any."""


@pytest.mark.parametrize("operation", AROUND)
def test_relations_of_the_operations_around(session_with: Callable[..., Session], operation: KindName) -> None:
    session = session_with()
    recipe = Recipe(1, ("reachable", "total"), (operation,), "small")
    passed: Counter[str] = Counter()
    for index in range(64):
        outcome = session.check(case_at(recipe, index), tuple(relations()))
        assert outcome.failure is None, (index, outcome.signature)
        passed.update(verdict.relation for verdict in outcome.relations if verdict.status == "pass")
    always = {"poison-patterns", "repetition"}
    assert {name for name, count in passed.items() if count >= 3} >= AROUND[operation] | always, passed


def test_a_block_that_a_draft_writes_may_have_been_of_another_group(session_with: Callable[..., Session]) -> None:
    """An edit of the tables gave it to the group whose forward pass writes it: it cannot be transposed for both."""
    repro = read_repro(Path(__file__).parent / "data" / "block-of-another-group.json")
    assert isinstance(repro, Repro)
    outcome = session_with().check(repro.case, ("conv-layouts",))
    (verdict,) = outcome.relations
    assert (verdict.status, verdict.reason) == ("skip", "relation-undefined")


def test_programs_are_split_into_single_requests(session_with: Callable[..., Session]) -> None:
    session = session_with()
    recipe = Recipe(2, ("reachable", "total"), ("postprocess", "precopy"), "small")
    programs = [case for case in (case_at(recipe, index) for index in range(320)) if len(case.program) > 1]
    outcomes = [session.check(case, ("single-requests",)) for case in programs]
    assert not [outcome.signature for outcome in outcomes if outcome.failure is not None]
    assert sum(outcome.relations[0].status == "pass" for outcome in outcomes if outcome.relations) >= 5


def test_a_program_in_which_no_request_takes_part_is_not_split(session_with: Callable[..., Session]) -> None:
    recipe = Recipe(7, ("total",), ("postprocess", "precopy"), "full")
    drawn = (case_at(recipe, index) for index in range(400))
    case = next(case for case in drawn if len(case.program) > 1 and all(step.runner == "V2" for step in case.program))
    skipped = [replace(step, rows=tuple(replace(row, slot=SKIP_ROW) for row in step.rows)) for step in case.program]
    assert len(skipped) > 1
    outcome = session_with().check(replace(case, program=tuple(skipped)), ("single-requests",))
    (verdict,) = outcome.relations
    assert (verdict.status, verdict.reason) == ("skip", "relation-undefined")


@pytest.mark.long
@pytest.mark.parametrize("domain", ["reachable", "total"])
def test_right_kernels_satisfy_every_relation(session_with: Callable[..., Session], domain: str) -> None:
    session = session_with()
    recipe = Recipe(0, (domain,), ("postprocess", "precopy"), "small")  # type: ignore[arg-type]
    passed: Counter[str] = Counter()
    for index in range(CASES):
        outcome = session.check(case_at(recipe, index), tuple(relations()))
        assert outcome.failure is None, (index, outcome.signature)
        for verdict in outcome.relations:
            assert verdict.reason in (None, "relation-undefined"), (index, verdict)
            passed[verdict.relation] += verdict.status == "pass"
    assert min(passed[name] for name in relations()) >= CASES // 8, passed
