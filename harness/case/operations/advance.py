"""Advance: the V2 runner's requests move on to the column of their next running state, on the device."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from harness.case.layout import Layout
from harness.case.operations.arrays import Array, by_batch_row, by_slot, mapping
from harness.case.operations.rows import MOST_ROWS, ColumnOrFresh, Row, Runner, Tokens, UsedSlot, check_slots
from harness.case.problem import InvalidCase


class AdvanceRow(Row, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request before a step of `query_length` tokens; `state_column` is FRESH if it has no state yet."""

    slot: UsedSlot
    state_column: ColumnOrFresh
    accepted: Tokens
    computed: Tokens
    query_length: Tokens


class Advance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="advance"):
    """Emit where the state is and how far into it, then move on to the new column (docs/domain.md, section 4).

    `query_start` is the number of the batch's first token: V2 counts queries from 0, but kernels do not rely on that.
    """

    summary: ClassVar[str] = "where each request's state is and how far into it, then on to the new column (V2)"
    depends_on_block_ids: ClassVar[bool] = False
    splits_by_request: ClassVar[bool] = True

    rows: Annotated[tuple[AdvanceRow, ...], MOST_ROWS]
    query_start: Tokens = 0

    def __post_init__(self) -> None:
        check_slots(self.runner, [row.slot for row in self.rows])
        for i, row in enumerate(self.rows):
            if row.computed + row.query_length < 1:
                raise InvalidCase(f"advance row {i}: computed + query_length must be at least 1")

    @property
    def runner(self) -> Runner:
        return "V2"

    def arrays(self, layout: Layout) -> tuple[Array, ...]:
        """int32 by slot, two of them results; `query_start[i]` is where the query of batch row i starts."""
        slots = [row.slot for row in self.rows]
        starts = [self.query_start]
        for row in self.rows:
            starts.append(starts[-1] + row.query_length)
        columns = [row.state_column for row in self.rows]
        return (
            by_slot(layout, "state_column", slots, columns, "state_column", written=True),
            by_slot(layout, "accepted", slots, [row.accepted for row in self.rows], "accepted", written=True),
            by_slot(layout, "computed", slots, [row.computed for row in self.rows], "computed"),
            by_slot(layout, "source_column", (), (), "source_column", written=True),
            by_slot(layout, "bias", (), (), "bias", written=True),
            by_batch_row(layout, "query_start", starts),
            mapping(slots),
        )
