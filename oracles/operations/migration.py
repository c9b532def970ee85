"""The result of postprocess and precopy (docs/domain.md, sections 3 and 4)."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case import Postprocess, Precopy
from harness.case.operations.results import ACCEPTED_OUT
from harness.oracles.before import Before
from harness.oracles.decisions import Move, decide
from harness.oracles.expected import Expected, move_states, write_entries


def expect_precopy(operation: Precopy, before: Before) -> Expected:
    """States move; no array changes."""
    after, copies = move_states(before, _moves(operation, before.layout.block_size))
    return Expected(after, copies)


def expect_postprocess(operation: Postprocess, before: Before) -> Expected:
    """States move, and some accepted counts become 1: in place for V2, in a separate result for V1."""
    size = before.layout.block_size
    after, copies = move_states(before, _moves(operation, size))
    counts: dict[int, int] = {}
    resets = 0
    for row, decision in zip(operation.rows, decide(operation, size), strict=True):
        if decision is not None:
            assert decision.accepted is not None
            counts[decision.slot] = decision.accepted
            resets += row.accepted != decision.accepted
    if operation.runner == "V1":
        return Expected(after, copies, resets, results={ACCEPTED_OUT: counts})
    span = before.arrays["accepted"]
    write_entries(after, span, counts)
    return Expected(after, copies, resets, arrays=(span,))


def _moves(operation: Postprocess | Precopy, size: int) -> Iterator[tuple[int, int, Move]]:
    for row, decision in enumerate(decide(operation, size)):
        if decision is not None and decision.move is not None:
            yield row, decision.slot, decision.move
