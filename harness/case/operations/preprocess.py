"""Preprocess: the V1 runner's host code before a step, which keeps track of columns and moves states between them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from harness.case.layout import Layout
from harness.case.operations.arrays import Array
from harness.case.operations.rows import MOST_ROWS, Column, Row, Runner, Tokens, UsedSlot, check_slots
from harness.case.problem import InvalidCase

MovePath = Literal["fused", "scalar", "production"]
"""By the precopy kernel; by copy specs and a batch copy; or by whichever of the two the runner takes with drafts."""
Absence = Literal["finished", "preempted", "idle"]


class PreprocessRow(Row, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request of the batch. `state_column` is the column the runner remembers, None if there is none.

    A request that is `resumed` starts again from what is computed, regardless of what is remembered.
    """

    slot: UsedSlot
    state_column: Column | None
    resumed: bool = False
    computed: Tokens
    scheduled: Tokens
    accepted: Tokens

    def source_column(self, block_size: int) -> int:
        """Where the state is before the step (docs/domain.md, section 4): -1 if nothing is computed."""
        if self.state_column is None or self.resumed:
            return (self.computed - 1) // block_size
        return self.state_column

    def destination_column(self, block_size: int) -> int:
        """Where the state is from now on."""
        return (self.computed + self.scheduled - 1) // block_size

    def table_reach(self, layout: Layout) -> int:
        """Source, the column of the last accepted token, destination."""
        size = layout.block_size
        return max(self.source_column(size) + max(self.accepted - 1, 0), self.destination_column(size)) + 1


class AbsentRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request that is not in the batch: it has finished, was preempted, or just waits for its next turn."""

    state_column: Column | None
    absence: Absence


class Preprocess(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="preprocess"):
    """Forget columns of requests that are gone, give every request its new one, move states between them."""

    summary: ClassVar[str] = "the V1 runner's call before a step: forget who left, then copy"
    depends_on_block_ids: ClassVar[bool] = False
    splits_by_request: ClassVar[bool] = True

    path: MovePath
    rows: Annotated[tuple[PreprocessRow, ...], MOST_ROWS]
    absent: Annotated[tuple[AbsentRequest, ...], Meta(max_length=64)] = ()

    def __post_init__(self) -> None:
        check_slots(self.runner, [row.slot for row in self.rows])
        for i, row in enumerate(self.rows):
            if row.computed + row.scheduled < 1:
                raise InvalidCase(f"preprocess row {i}: computed + scheduled must be at least 1")

    @property
    def runner(self) -> Runner:
        return "V1"

    def arrays(self, layout: Layout) -> tuple[Array, ...]:
        """None: all data lies on the host, and the views belong to the target."""
        return ()
