"""Stage: the V1 runner writes each request's numbers into pinned memory and sends them to the device."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from harness.case.layout import Layout
from harness.case.operations.arrays import Array
from harness.case.operations.rows import MOST_ROWS, Column, Row, Runner, Tokens, UsedSlot, check_slots
from harness.case.problem import InvalidCase


class StageRow(Row, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request after preprocess. `state_column` is None if the runner has none for it, which is an error."""

    slot: UsedSlot
    state_column: Column | None
    scheduled: Tokens
    computed: Tokens
    draft: Tokens


class Stage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="stage"):
    """Fill four views and copy them (docs/domain.md, section 7).

    `waiting` requests come in the runner's list after those of the batch: their numbers must not be read.
    """

    summary: ClassVar[str] = "the inputs of a postprocess go from the host to the device"
    depends_on_block_ids: ClassVar[bool] = False
    splits_by_request: ClassVar[bool] = False

    rows: Annotated[tuple[StageRow, ...], MOST_ROWS]
    waiting: Annotated[int, Meta(ge=0, le=64)] = 0

    def __post_init__(self) -> None:
        check_slots(self.runner, [row.slot for row in self.rows])
        for i, row in enumerate(self.rows):
            if row.draft > 2**14:
                raise InvalidCase(f"stage row {i}: drafts are passed as a list, and {row.draft} are too many")

    @property
    def runner(self) -> Runner:
        return "V1"

    def arrays(self, layout: Layout) -> tuple[Array, ...]:
        """None: the numbers lie on the host, and the views belong to the target."""
        return ()
