"""Postprocess and precopy: the two operations that move state between blocks on the device."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from harness.case.layout import Layout
from harness.case.operations.arrays import Array, by_slot, mapping
from harness.case.operations.rows import (
    MOST_ROWS,
    SKIP_ROW,
    Column,
    ColumnOrFresh,
    Row,
    Runner,
    Tokens,
    check_slots,
)
from harness.case.problem import InvalidCase


class PostprocessRow(Row, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request after a step: counts in tokens, `state_column` is the block-table column of its running state."""

    scheduled: Tokens
    computed: Tokens
    draft: Tokens
    accepted: Tokens
    state_column: Column

    @property
    def running(self) -> int:
        """Tokens up to and including the first, always-kept one (docs/domain.md, section 3)."""
        return self.computed + self.scheduled - self.draft

    @property
    def new_computed(self) -> int:
        """Tokens in the state after this step; the V2 runner passes this number instead of the parts."""
        return self.running + self.accepted - 1

    def table_reach(self, layout: Layout) -> int:
        """The running column, its speculative columns, and the column that ends at the last block boundary."""
        end = self.state_column + max(self.draft, self.accepted - 1, 0) + 1
        return max(end, self.new_computed // layout.block_size)


class PrecopyRow(Row, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request before a step: move from `source_column` (or FRESH) to `destination_column`, `bias` tokens on."""

    source_column: ColumnOrFresh
    destination_column: Column
    bias: Tokens

    def table_reach(self, layout: Layout) -> int:
        """Source, the column of the last accepted token, destination."""
        return max(self.source_column + self.bias, self.destination_column) + 1


class Postprocess(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="postprocess"):
    """Move accepted state to where the prefix cache expects it (docs/domain.md, section 3)."""

    summary: ClassVar[str] = "after a step, accepted state moves to where the prefix cache expects it"
    depends_on_block_ids: ClassVar[bool] = False
    splits_by_request: ClassVar[bool] = True

    runner: Runner
    rows: Annotated[tuple[PostprocessRow, ...], MOST_ROWS]

    def __post_init__(self) -> None:
        check_slots(self.runner, [row.slot for row in self.rows])
        for i, row in enumerate(self.rows):
            if row.slot != SKIP_ROW and row.running < 1:
                raise InvalidCase(f"postprocess row {i}: computed + scheduled - draft must be at least 1")

    def arrays(self, layout: Layout) -> tuple[Array, ...]:
        """int32 by slot: V1 passes the parts of the new count, V2 the count and a mapping."""
        rows = [row for row in self.rows if row.slot != SKIP_ROW]
        slots = [row.slot for row in rows]
        counts, in_place = [row.accepted for row in rows], self.runner == "V2"
        accepted = by_slot(layout, "accepted", slots, counts, "accepted", written=in_place)
        column = by_slot(layout, "state_column", slots, [row.state_column for row in rows], "state_column")
        if self.runner == "V1":
            return (
                accepted,
                column,
                by_slot(layout, "scheduled", slots, [row.scheduled for row in rows]),
                by_slot(layout, "computed", slots, [row.computed for row in rows]),
                by_slot(layout, "draft", slots, [row.draft for row in rows]),
            )
        new = by_slot(layout, "new_computed", slots, [row.new_computed for row in rows], "computed")
        return accepted, column, new, mapping([row.slot for row in self.rows])


class Precopy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="precopy"):
    """Move running states into their requests' new blocks (docs/domain.md, section 4)."""

    summary: ClassVar[str] = "before a step, running state moves to the column that the step works in"
    depends_on_block_ids: ClassVar[bool] = False
    splits_by_request: ClassVar[bool] = True

    runner: Runner
    rows: Annotated[tuple[PrecopyRow, ...], MOST_ROWS]

    def __post_init__(self) -> None:
        check_slots(self.runner, [row.slot for row in self.rows])

    def arrays(self, layout: Layout) -> tuple[Array, ...]:
        """int32 by slot, and the mapping of V2."""
        rows = [row for row in self.rows if row.slot != SKIP_ROW]
        slots = [row.slot for row in rows]
        counts = (
            by_slot(layout, "destination_column", slots, [row.destination_column for row in rows], "state_column"),
            by_slot(layout, "source_column", slots, [row.source_column for row in rows], "source_column"),
            by_slot(layout, "bias", slots, [row.bias for row in rows], "bias"),
        )
        if self.runner == "V1":
            return counts
        return *counts, mapping([row.slot for row in self.rows])
