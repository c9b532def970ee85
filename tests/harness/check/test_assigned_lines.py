"""Which line of the code under test last assigned a number that the host sees."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.check.assigned_lines import AssignedLines
from harness.check.explanation import NEVER_ASSIGNED
from harness.check.session import Session
from harness.engines.random import Recipe, case_at
from harness.kernels.executors.registry import create_executor, executor_class
from harness.kernels.mutations.mutation import Mutation
from harness.kernels.mutations.registry import mutation
from harness.kernels.targets.builtin import BuiltinTarget
from tests.kernels.mutations.foreign_faults import FOREIGN


def helper(values: dict[int, int]) -> None:
    values[0] = 7  # assigned by a callee


def host_code(values: dict[int, int]) -> None:
    values[0] = 1
    values[1] = 2
    helper(values)
    values.update({2: 5})
    values[1] = values[1]  # the same number


def traced(owns: Any) -> AssignedLines:
    values = {0: 0, 1: 0, 2: 0, 3: 0}
    lines = AssignedLines(owns)
    with lines.traced(lambda: {"values": np.array([values[number] for number in range(4)])}):
        host_code(values)
    return lines


def test_the_last_line_that_changed_a_number_assigned_it() -> None:
    before = sys.gettrace()
    lines = traced(lambda file: file == __file__)
    assert sys.gettrace() is before
    start = host_code.__code__.co_firstlineno
    found = [lines.line("values", entry) for entry in range(4)]
    assert [at and (at.function, at.line) for at in found] == [
        ("helper", helper.__code__.co_firstlineno + 1),
        ("host_code", start + 2),
        ("host_code", start + 4),
        None,
    ]


def test_code_of_others_assigns_nothing() -> None:
    lines = traced(lambda file: False)
    assert [lines.line("values", entry) for entry in range(4)] == [None] * 4


def first_host_failure(planted: Mutation) -> SimpleNamespace:
    executor = create_executor("native")
    session = Session(BuiltinTarget(executor, [planted]), executor)
    operations: Any = tuple(planted.operations)
    recipe = Recipe(seed=1, domains=("reachable", "total"), operations=operations, scale="small")
    for index in range(200):
        failure = session.check(
            case_at(recipe, index), explain=lambda signature: signature.oracle == "host", diagnose=False
        ).failure
        if failure is not None and failure.signature is not None and failure.signature.oracle == "host":
            assert failure.evidence is not None
            return SimpleNamespace(evidence=failure.evidence, signature=failure.signature)
    raise AssertionError("no case shows it")


needs_native = pytest.mark.skipif(
    executor_class("native").unavailable() is not None, reason="no executor here records accesses"
)


@needs_native
@pytest.mark.parametrize(
    ("name", "function"),
    [("remembers-next-column", "remember_decodes"), ("arguments-swapped", "stage"), ("stages-too-many", "stage")],
)
def test_a_host_difference_names_the_line(name: str, function: str) -> None:
    """Of the columns that are remembered, of the host's views, and of what a line has sent to the device."""
    foreign = {one.mutation.name: one.mutation for one in FOREIGN}
    evidence = first_host_failure(foreign[name] if name in foreign else mutation(name)).evidence
    (place,) = evidence.places
    assert (place.role, place.function) == ("assign", function)
    assert evidence.summary.endswith(f", last assigned at {place.file}:{place.line} ({function})")
    assert all(", last assigned at " in detail for detail in evidence.details)


@needs_native
def test_what_was_not_assigned_says_so() -> None:
    evidence = first_host_failure(mutation("remembers-prefills")).evidence
    assert evidence.summary.endswith(NEVER_ASSIGNED)
    assert evidence.places == ()
