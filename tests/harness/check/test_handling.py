"""Handling: every operation that is drawn has an expectation and a call of the same kind."""

from __future__ import annotations

from harness.case import OPERATIONS, EditTables, Forward
from harness.check.operations.registry import handling
from harness.engines.random import Recipe, case_at
from harness.generators.kinds.registry import KINDS


def test_every_operation_is_handled() -> None:
    recipe = Recipe(2, ("reachable", "total"), tuple(KINDS), "small")
    seen = set()
    for index in range(512):
        for operation in case_at(recipe, index).program:
            seen.add(type(operation))
            assert handling(operation).by_harness == isinstance(operation, Forward | EditTables)
    assert seen == set(OPERATIONS)
