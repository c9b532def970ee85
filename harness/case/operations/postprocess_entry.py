"""Postprocess entry: what the V1 runner calls after a step, around the kernel itself."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from harness.case.layout import Layout
from harness.case.operations.arrays import Array, by_slot
from harness.case.operations.migration import PostprocessRow
from harness.case.operations.rows import MOST_ROWS, Runner, check_slots
from harness.case.problem import InvalidCase


class PostprocessEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="postprocess-entry"):
    """Stage the numbers, run the kernel, copy the accepted counts back to the host (docs/domain.md, section 7).

    `first_use`: the target is not bound to any memory yet, and has to bind itself.
    """

    summary: ClassVar[str] = "the V1 runner's call: bind, postprocess, copy the counts back"
    depends_on_block_ids: ClassVar[bool] = False
    splits_by_request: ClassVar[bool] = True

    rows: Annotated[tuple[PostprocessRow, ...], MOST_ROWS]
    first_use: bool = False

    def __post_init__(self) -> None:
        check_slots(self.runner, [row.slot for row in self.rows])
        for i, row in enumerate(self.rows):
            if row.running < 1:
                raise InvalidCase(f"postprocess row {i}: computed + scheduled - draft must be at least 1")
            if row.draft > 2**14:
                raise InvalidCase(f"postprocess row {i}: drafts are staged from a list, and {row.draft} are too many")
        if self.first_use and not self.rows:
            raise InvalidCase("a first use without requests binds nothing")

    @property
    def runner(self) -> Runner:
        return "V1"

    def arrays(self, layout: Layout) -> tuple[Array, ...]:
        """The accepted counts; everything else is staged."""
        return (by_slot(layout, "accepted", [row.slot for row in self.rows], [row.accepted for row in self.rows]),)
