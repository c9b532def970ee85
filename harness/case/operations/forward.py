"""Forward and table edits happen between two kernels under test. The harness does them itself, on both sides."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from harness.case.layout import Layout
from harness.case.operations.arrays import Array
from harness.case.operations.rows import MOST_ROWS, Column, Row, Runner, Tokens, UsedSlot
from harness.case.problem import InvalidCase


class ForwardRow(Row, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request: its running state is in `column`, and the state after draft j in the j-th column after it."""

    slot: UsedSlot
    column: Column
    draft: Tokens

    def table_reach(self, layout: Layout) -> int:
        """The running column and those of the drafts."""
        return self.column + self.draft + 1


class Forward(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="forward"):
    """The layers of a step write new states (docs/domain.md, section 2): windows in the running column, a temporal
    state in it and in each speculative one. The bytes are drawn from `payload_seed`."""

    summary: ClassVar[str] = "the layers of a step write new states"
    depends_on_block_ids: ClassVar[bool] = True
    splits_by_request: ClassVar[bool] = False

    rows: Annotated[tuple[ForwardRow, ...], MOST_ROWS]
    payload_seed: Annotated[int, Meta(ge=0, le=2**32 - 1)]

    def __post_init__(self) -> None:
        if len({row.slot for row in self.rows}) != len(self.rows):
            raise InvalidCase("two rows of one operation have the same slot")

    @property
    def runner(self) -> Runner:
        return "V2"

    def arrays(self, layout: Layout) -> tuple[Array, ...]:
        """None."""
        return ()


class TableCell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cell of a block table and the block id that it holds from now on."""

    group: Annotated[int, Meta(ge=0, le=63)]
    slot: UsedSlot
    column: Column
    block: Annotated[int, Meta(ge=0, le=2**24)]


class EditTables(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="edit-tables"):
    """The runner writes what the block manager has decided since the last step."""

    summary: ClassVar[str] = "the runner writes what the block manager has decided since the last step"
    depends_on_block_ids: ClassVar[bool] = True
    splits_by_request: ClassVar[bool] = False

    cells: Annotated[tuple[TableCell, ...], Meta(max_length=2**18)]

    @property
    def rows(self) -> tuple[ForwardRow, ...]:
        """None: an edit belongs to no batch."""
        return ()

    @property
    def runner(self) -> Runner:
        return "V2"

    def arrays(self, layout: Layout) -> tuple[Array, ...]:
        """None."""
        return ()
