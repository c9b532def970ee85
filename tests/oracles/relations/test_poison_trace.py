"""Copies may move undefined bytes, which differ from run to run; every other byte must be equal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case import Case
from harness.check.operations.registry import expect
from harness.memory import Image, initial_image, plan_memory
from harness.oracles.relations.base import Mismatch, Run, RunStep
from harness.oracles.relations.poison_patterns import PoisonPatterns


def run_of(case: Case, before: Image) -> Run:
    plan = plan_memory(case, 64)
    expected = expect(case, plan, 0, before)
    return Run(case, plan, before, [RunStep(expected.image.copy(), expected.results, expected)])


@pytest.fixture
def runs(make: Callable[..., Case]) -> tuple[Run, Run]:
    """Two right runs; in the second, 5 bytes of a block that moves differ, as if they had never been written."""
    case = make("precopy", "V2")
    plan = plan_memory(case, 64)
    one, other = initial_image(case, plan), initial_image(case, plan)
    temporal = plan.base.states[1]
    other.view(temporal.block(2) + 100, 5)[:] ^= 0xFF
    return run_of(case, one), run_of(case, other)


def test_what_a_copy_carries_along_may_differ(runs: tuple[Run, Run]) -> None:
    first, other = runs
    carried = first.plan.base.states[1].block(3) + 100
    mine, theirs = first.steps[0].image, other.steps[0].image
    assert list(mine.differences(theirs)) == [(carried - first.plan.base.states[1].state.block_stride, 5), (carried, 5)]
    assert list(PoisonPatterns().mismatches(first, [other])) == []


@pytest.mark.parametrize("shift", [-1, 5])
def test_the_next_byte_must_not_differ(runs: tuple[Run, Run], shift: int) -> None:
    first, other = runs
    at = first.plan.base.states[1].block(3) + 100 + shift
    other.steps[0].image.view(at, 1)[:] ^= 1
    assert list(PoisonPatterns().mismatches(first, [other])) == [Mismatch(0, at, 0, 0, at, 1)]


def test_a_difference_that_was_overwritten_must_be_gone(runs: tuple[Run, Run]) -> None:
    """Bytes that differed before are defined if a copy of defined bytes has overwritten them."""
    first, other = runs
    place = first.plan.base.states[1]
    other.before.view(place.block(3), 1)[:] ^= 1
    assert list(PoisonPatterns().mismatches(first, [other])) == []
    other.steps[0].image.view(place.block(3), 1)[:] ^= 1
    assert len(list(PoisonPatterns().mismatches(first, [other]))) == 1
