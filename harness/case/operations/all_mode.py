"""All mode: the host's bookkeeping around a step when states are kept for every block, not only for aligned ones.

States do not move in this mode. The host remembers in which column the last token of a speculative decode lay, and
passes it to the next step, which writes in place from there on.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from harness.case.layout import Layout
from harness.case.operations.arrays import Array
from harness.case.operations.preprocess import AbsentRequest
from harness.case.operations.rows import MOST_ROWS, Column, Row, Runner, Tokens, UsedSlot, check_slots


class AllModeRow(Row, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request of the batch. `state_column` is the column the runner remembers, None if there is none.

    What is remembered of a `resumed` request is forgotten first.
    """

    slot: UsedSlot
    state_column: Column | None
    resumed: bool = False
    computed: Tokens
    scheduled: Tokens


class AllMode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="all-mode"):
    """Before a step: forget, and stage what is remembered. After it: remember again (docs/domain.md, section 7)."""

    summary: ClassVar[str] = "the V1 runner's bookkeeping where states are kept for every block"
    depends_on_block_ids: ClassVar[bool] = False
    splits_by_request: ClassVar[bool] = False

    rows: Annotated[tuple[AllModeRow, ...], MOST_ROWS]
    absent: Annotated[tuple[AbsentRequest, ...], Meta(max_length=64)] = ()

    def __post_init__(self) -> None:
        check_slots(self.runner, [row.slot for row in self.rows])

    @property
    def runner(self) -> Runner:
        return "V1"

    def arrays(self, layout: Layout) -> tuple[Array, ...]:
        """None: all data lies on the host, and the view belongs to the target."""
        return ()
