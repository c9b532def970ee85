"""The copies that the operations of a case have to make, from the oracle alone: no target and no torch."""

from __future__ import annotations

from collections.abc import Sequence

from harness.case import Case
from harness.check.operations.registry import expect
from harness.memory import MemoryPlan, initial_image, plan_memory
from harness.oracles.copies import StateCopy

MAPPING_BITS = 64
"""The type of mapping entries, which only decides how long an argument is."""


def plan_of(case: Case) -> MemoryPlan:
    """Where the objects of a case lie. Offsets of states, tables and guards are those of every target. Raises
    InvalidCase."""
    return plan_memory(case, MAPPING_BITS)


def expected_copies(case: Case, plan: MemoryPlan) -> list[Sequence[StateCopy]]:
    """The copies that each operation has to make. Raises InvalidCase if the case violates the preconditions of one."""
    image = initial_image(case, plan)
    found: list[Sequence[StateCopy]] = []
    for index, _ in enumerate(case.program):
        expected = expect(case, plan, index, image)
        found.append(expected.copies)
        image = expected.image
    return found
