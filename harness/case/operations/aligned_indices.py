"""Aligned indices: the physical blocks that the layers of a step read and write, for every group in one launch."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from harness.case.layout import Layout
from harness.case.operations.arrays import Array, by_batch_row, mapping
from harness.case.operations.rows import MOST_ROWS, Row, Runner, Tokens, UsedSlot, check_slots


class AlignedIndicesRow(Row, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request of the batch: `length` tokens once the step has run."""

    slot: UsedSlot
    length: Tokens

    def table_reach(self, layout: Layout) -> int:
        """The column of the last token, and the speculative ones after it."""
        return max((self.length - 1) // layout.block_size, 0) + 1 + layout.num_spec


class AlignedIndices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="aligned-indices"):
    """For each group and batch row, the ids of `1 + num_spec` columns (docs/domain.md, section 7).

    The target reads tables in batch order; a runner gathers them from its rows by slot before each step.
    """

    summary: ClassVar[str] = "the blocks of each request's running and speculative columns, for all groups"
    depends_on_block_ids: ClassVar[bool] = False
    splits_by_request: ClassVar[bool] = False

    rows: Annotated[tuple[AlignedIndicesRow, ...], MOST_ROWS]

    def __post_init__(self) -> None:
        check_slots(self.runner, [row.slot for row in self.rows])

    @property
    def runner(self) -> Runner:
        return "V2"

    def arrays(self, layout: Layout) -> tuple[Array, ...]:
        """int32 lengths by batch row; the mapping is used to gather the table rows."""
        return (
            by_batch_row(layout, "length", [row.length for row in self.rows]),
            mapping([row.slot for row in self.rows]),
        )
