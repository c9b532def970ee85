"""What scatter and fill make of accepted counts (docs/domain.md, section 7)."""

from __future__ import annotations

from harness.case import SKIP_ROW, Case, FillAccepted, ScatterAccepted
from harness.memory import Image, MemoryPlan
from harness.oracles.expected import Expected, write_entries


def expect_scatter(case: Case, plan: MemoryPlan, index: int, before: Image) -> Expected:
    """Each request's own number, at least 1."""
    operation = case.program[index]
    assert isinstance(operation, ScatterAccepted)
    counts = {row.slot: max(row.sampled, 1) for row in operation.rows if row.slot != SKIP_ROW}
    return _counts(plan, index, before, counts)


def expect_fill(case: Case, plan: MemoryPlan, index: int, before: Image) -> Expected:
    """One number for all, at least 1."""
    operation = case.program[index]
    assert isinstance(operation, FillAccepted)
    counts = {row.slot: max(operation.sampled, 1) for row in operation.rows if row.slot != SKIP_ROW}
    return _counts(plan, index, before, counts)


def _counts(plan: MemoryPlan, index: int, before: Image, counts: dict[int, int]) -> Expected:
    after = before.copy()
    span = plan.arrays[index]["accepted"]
    write_entries(after, span, counts)
    return Expected(after, arrays=(span,), launches=bool(counts))
