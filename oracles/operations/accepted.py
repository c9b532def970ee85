"""The accepted counts after scatter and fill (docs/domain.md, section 7)."""

from __future__ import annotations

from harness.case import SKIP_ROW, FillAccepted, ScatterAccepted
from harness.oracles.before import Before
from harness.oracles.expected import Expected, write_entries


def expect_scatter(operation: ScatterAccepted, before: Before) -> Expected:
    """Each request gets its own number, at least 1."""
    counts = {row.slot: max(row.sampled, 1) for row in operation.rows if row.slot != SKIP_ROW}
    return _counts(before, counts)


def expect_fill(operation: FillAccepted, before: Before) -> Expected:
    """All requests get one number, at least 1."""
    counts = {row.slot: max(operation.sampled, 1) for row in operation.rows if row.slot != SKIP_ROW}
    return _counts(before, counts)


def _counts(before: Before, counts: dict[int, int]) -> Expected:
    after = before.image.copy()
    span = before.arrays["accepted"]
    write_entries(after, span, counts)
    return Expected(after, arrays=(span,), launches=bool(counts))
