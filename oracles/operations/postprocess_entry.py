"""The result of the V1 runner's postprocess entry point (docs/domain.md, sections 3 and 7)."""

from __future__ import annotations

from harness.case import PostprocessEntry
from harness.case.operations.results import ACCEPTED_ON_HOST, ACCEPTED_OUT, STAGED
from harness.oracles.before import Before
from harness.oracles.decisions import decide_postprocess
from harness.oracles.expected import Expected, move_states
from harness.oracles.operations.stage import both_sides


def expect_postprocess_entry(operation: PostprocessEntry, before: Before) -> Expected:
    """As for postprocess; the counts are on the host too, where those past the batch are unchanged."""
    decisions = [decide_postprocess(row, before.layout.block_size) for row in operation.rows]
    moves = [(i, d.slot, d.move) for i, d in enumerate(decisions) if d.move is not None]
    after, copies = move_states(before, moves)
    counts = {i: d.accepted or 0 for i, d in enumerate(decisions)}
    resets = sum(row.accepted != d.accepted for row, d in zip(operation.rows, decisions, strict=True))
    staged = {name: {i: int(getattr(row, name)) for i, row in enumerate(operation.rows)} for name in STAGED}
    results = {ACCEPTED_OUT: counts, ACCEPTED_ON_HOST: counts, **both_sides(staged)}
    return Expected(after, copies, resets, results=results)
