"""The random engine: a case is a pure function of the recipe and its number."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.case import encode_case
from harness.engines.random import CASES_PER_LAYOUT, Recipe, case_at

RECIPE = Recipe(seed=3, domains=("reachable", "total"), operations=("postprocess", "precopy"), scale="small")


@given(st.permutations(range(0, 96, 5)))
def test_the_order_in_which_cases_are_drawn_changes_nothing(order: list[int]) -> None:
    assert {i: encode_case(case_at(RECIPE, i)) for i in order} == {
        i: encode_case(case_at(RECIPE, i)) for i in range(0, 96, 5)
    }


def test_cases_of_one_block_share_their_layout() -> None:
    layouts = [case_at(RECIPE, i).layout for i in range(4 * CASES_PER_LAYOUT)]
    blocks = [layouts[i : i + CASES_PER_LAYOUT] for i in range(0, len(layouts), CASES_PER_LAYOUT)]
    assert all(layout is block[0] for block in blocks for layout in block), "the same object, so plans are shared"
    assert len({msgspec.json.encode(block[0]) for block in blocks}) == 4


def test_domains_take_turns() -> None:
    domains = [case_at(RECIPE, i).domain for i in range(0, 4 * CASES_PER_LAYOUT, CASES_PER_LAYOUT // 2)]
    assert domains == ["reachable", "reachable", "total", "total"] * 2


def test_cases_differ_from_each_other_and_from_those_of_another_seed() -> None:
    texts = [encode_case(case_at(RECIPE, i)) for i in range(64)]
    assert len(set(texts)) == 64
    assert len({case_at(RECIPE, i).contents.payload_seed for i in range(64)}) == 64
    other = msgspec.structs.replace(RECIPE, seed=4)
    assert not {encode_case(case_at(other, i)) for i in range(64)} & set(texts)


@pytest.mark.parametrize("name", ["postprocess", "precopy"])
def test_programs_are_made_of_the_operations_asked_for(name: str) -> None:
    recipe = msgspec.structs.replace(RECIPE, operations=(name,))
    names = {type(operation).__name__.lower() for i in range(64) for operation in case_at(recipe, i).program}
    assert names == {name}
    both = {type(operation).__name__.lower() for i in range(64) for operation in case_at(RECIPE, i).program}
    assert both == {"postprocess", "precopy"}


def test_the_program_order_is_the_last_thing_drawn() -> None:
    """Another policy runs the same cases."""
    orders = set()
    for i in range(64):
        vary = case_at(RECIPE, i)
        natural = case_at(msgspec.structs.replace(RECIPE, order="natural"), i)
        assert msgspec.structs.replace(vary, execution=natural.execution) == natural
        assert natural.execution.program_order == "natural"
        orders.add(vary.execution.program_order)
    assert orders == {"natural", "reversed", "shuffled"}
