"""Accepted counts of the V2 runner: scattered from what was sampled, or filled with one number."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from harness.case.layout import Layout
from harness.case.operations.arrays import Array, by_batch_row, by_slot, mapping
from harness.case.operations.rows import MOST_ROWS, Row, Runner, Tokens, check_slots


class ScatterAcceptedRow(Row, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request after sampling: `sampled` tokens, 0 for a prefill chunk that samples none."""

    sampled: Tokens


class FillAcceptedRow(Row, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request whose count is set."""


class ScatterAccepted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="scatter-accepted"):
    """Each request's count becomes what it sampled, at least 1 (docs/domain.md, section 7)."""

    summary: ClassVar[str] = "each request's accepted count becomes what it sampled"
    depends_on_block_ids: ClassVar[bool] = False
    splits_by_request: ClassVar[bool] = True

    rows: Annotated[tuple[ScatterAcceptedRow, ...], MOST_ROWS]

    def __post_init__(self) -> None:
        check_slots(self.runner, [row.slot for row in self.rows])

    @property
    def runner(self) -> Runner:
        return "V2"

    def arrays(self, layout: Layout) -> tuple[Array, ...]:
        """int32: counts by slot, sampled tokens by batch row."""
        return (
            by_slot(layout, "accepted", (), (), "accepted", written=True),
            by_batch_row(layout, "sampled", [row.sampled for row in self.rows]),
            mapping([row.slot for row in self.rows]),
        )


class FillAccepted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fill-accepted"):
    """Every request's count becomes `sampled`, at least 1 (docs/domain.md, section 7)."""

    summary: ClassVar[str] = "every request's accepted count becomes one number"
    depends_on_block_ids: ClassVar[bool] = False
    splits_by_request: ClassVar[bool] = True

    rows: Annotated[tuple[FillAcceptedRow, ...], MOST_ROWS]
    sampled: Tokens

    def __post_init__(self) -> None:
        check_slots(self.runner, [row.slot for row in self.rows])

    @property
    def runner(self) -> Runner:
        return "V2"

    def arrays(self, layout: Layout) -> tuple[Array, ...]:
        """int32 counts by slot."""
        accepted = by_slot(layout, "accepted", (), (), "accepted", written=True)
        return accepted, mapping([row.slot for row in self.rows])
