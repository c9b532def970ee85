"""What postprocess and precopy leave behind (docs/domain.md, sections 3 and 4)."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case import Case, Postprocess, Precopy
from harness.case.operations.results import ACCEPTED_OUT
from harness.memory import Image, MemoryPlan
from harness.oracles.decisions import Move, decide
from harness.oracles.expected import Expected, move_states, write_entries


def expect_precopy(case: Case, plan: MemoryPlan, index: int, before: Image) -> Expected:
    """States move; no array changes."""
    operation = case.program[index]
    assert isinstance(operation, Precopy)
    after, copies = move_states(case, plan, before, _moves(operation, case.layout.block_size))
    return Expected(after, copies)


def expect_postprocess(case: Case, plan: MemoryPlan, index: int, before: Image) -> Expected:
    """States move and accepted counts become 1 here and there: in place for V2, in a result of its own for V1."""
    operation = case.program[index]
    assert isinstance(operation, Postprocess)
    size = case.layout.block_size
    after, copies = move_states(case, plan, before, _moves(operation, size))
    counts: dict[int, int] = {}
    resets = 0
    for row, decision in zip(operation.rows, decide(operation, size), strict=True):
        if decision is not None:
            assert decision.accepted is not None
            counts[decision.slot] = decision.accepted
            resets += row.accepted != decision.accepted
    if operation.runner == "V1":
        return Expected(after, copies, resets, results={ACCEPTED_OUT: counts})
    span = plan.arrays[index]["accepted"]
    write_entries(after, span, counts)
    return Expected(after, copies, resets, arrays=(span,))


def _moves(operation: Postprocess | Precopy, size: int) -> Iterator[tuple[int, int, Move]]:
    for row, decision in enumerate(decide(operation, size)):
        if decision is not None and decision.move is not None:
            yield row, decision.slot, decision.move
