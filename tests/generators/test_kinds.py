"""Kinds: every operation has one, and every name that users can give is drawn in both domains."""

from __future__ import annotations

import pytest

from harness.case import OPERATIONS, Domain, operation_name
from harness.engines.random import Recipe, case_at
from harness.generators.kinds.kind import Kind
from harness.generators.kinds.registry import KINDS, by_operation, kind_of


def test_an_operation_without_a_kind_is_an_error() -> None:
    kinds = [kind for kind in KINDS.values() if isinstance(kind, Kind)]
    with pytest.raises(TypeError, match=r"^operations without a kind: forward, edit-tables$"):
        by_operation(kinds)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_draws_its_own_operation_alone_unless_it_is_one_of_programs(name: str) -> None:
    domains: tuple[Domain, ...] = ("reachable", "total")
    for domain in domains:
        cases = [case_at(Recipe(2, (domain,), (name,), "small"), index) for index in range(16)]
        drawn = {operation_name(operation) for case in cases for operation in case.program}
        assert name in drawn
        assert drawn == {name} or (name, domain) == ("forward", "reachable")


def test_what_is_known_of_an_operation_is_of_its_class() -> None:
    recipe = Recipe(2, ("reachable", "total"), tuple(KINDS), "small")
    operations = [operation for index in range(512) for operation in case_at(recipe, index).program]
    assert {type(operation) for operation in operations} == set(OPERATIONS)
    for operation in operations:
        kind = kind_of(operation)
        assert kind.operation is type(operation)
        for simpler in kind.simpler(operation):
            assert type(simpler) is type(operation)
            assert simpler != operation
