"""Scalar copy: the V1 runner works out every copy on the host and passes a list of them to one kernel."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from harness.case.layout import Layout
from harness.case.operations.arrays import Array
from harness.case.operations.migration import PrecopyRow
from harness.case.operations.rows import FRESH, MOST_ROWS, Runner, check_slots


class ScalarCopy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="scalar-copy"):
    """Move running states like precopy does, by copy specs and one batch copy (docs/domain.md, section 7).

    `within_blocks`: as after a step, where a row with a bias moves even if it stays in its column. Before a step it
    does not.
    """

    summary: ClassVar[str] = "moves worked out on the host, done by one kernel that copies bytes"
    depends_on_block_ids: ClassVar[bool] = False
    splits_by_request: ClassVar[bool] = True

    rows: Annotated[tuple[PrecopyRow, ...], MOST_ROWS]
    within_blocks: bool = False

    def __post_init__(self) -> None:
        check_slots(self.runner, [row.slot for row in self.rows])

    @property
    def runner(self) -> Runner:
        return "V1"

    def moves(self, row: PrecopyRow) -> bool:
        """Whether the state of a row moves."""
        stays = row.source_column == row.destination_column and not (self.within_blocks and row.bias)
        return row.source_column != FRESH and not stays

    def arrays(self, layout: Layout) -> tuple[Array, ...]:
        """None: columns and block ids lie on the host."""
        return ()
