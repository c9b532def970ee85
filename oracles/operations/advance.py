"""The result of advance (docs/domain.md, section 4): four int32 arrays by slot, no state."""

from __future__ import annotations

from harness.case import Advance, InvalidCase
from harness.oracles.before import Before
from harness.oracles.expected import Expected, write_entries

LARGEST = 2**31 - 1


def expect_advance(operation: Advance, before: Before) -> Expected:
    """Raises InvalidCase if a sum does not fit int32."""
    size = before.layout.block_size
    if operation.query_start + sum(row.query_length for row in operation.rows) > LARGEST:
        raise InvalidCase("the queries of the batch reach past the largest int32")
    after = before.image.copy()
    written = {name: before.arrays[name] for name in ("state_column", "accepted", "source_column", "bias")}
    resets = 0
    for row in operation.rows:
        tokens = row.computed + row.query_length
        if tokens + size > LARGEST:
            raise InvalidCase(f"slot {row.slot}: computed + query_length does not fit int32")
        column = (tokens - 1) // size
        moved_on = row.state_column >= 0 and row.state_column != column
        results = {
            "state_column": column,
            "accepted": 1 if moved_on else row.accepted,
            "source_column": row.state_column,
            "bias": max(row.accepted - 1, 0),
        }
        for name, value in results.items():
            write_entries(after, written[name], {row.slot: value})
        resets += moved_on and row.accepted != 1
    return Expected(after, resets=resets, arrays=tuple(written.values()), launches=bool(operation.rows))
