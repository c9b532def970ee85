"""A row is one request of a batch, in batch order, as one operation sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from harness.case.layout import Layout
from harness.case.problem import InvalidCase

Runner = Literal["V1", "V2"]

SKIP_ROW = -1
"""Slot of a batch row that the kernel skips (V2 only)."""
FRESH = -1
"""Source column of a request that has no state yet."""

MOST_ROWS = Meta(max_length=2**14)

Slot = Annotated[int, Meta(ge=SKIP_ROW, le=2**20)]
UsedSlot = Annotated[int, Meta(ge=0, le=2**20)]
"""A slot where no row can be skipped."""
Tokens = Annotated[int, Meta(ge=0, le=2**30)]
Column = Annotated[int, Meta(ge=0, le=2**20)]
ColumnOrFresh = Annotated[int, Meta(ge=FRESH, le=2**20)]


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The part that the rows of all operations share.

    `slot` is the index of the request's entries in the per-request arrays and of its row in the block tables: the batch
    row itself for the V1 runner, a free choice for V2, whose `idx_mapping` is made of the slots. A row whose slot is
    `SKIP_ROW` is skipped by the kernel.
    """

    slot: Slot

    def table_reach(self, layout: Layout) -> int:
        """How many columns of its table row, from the first one on, it may read or write; 0 if it reads no table."""
        return 0


def check_slots(runner: Runner, slots: Sequence[int]) -> None:
    """Raise InvalidCase if two rows have one slot, or if V1 rows are not numbered in order."""
    if runner == "V1" and list(slots) != list(range(len(slots))):
        raise InvalidCase("a V1 operation has no mapping: the slot of every row is its batch row")
    used = [slot for slot in slots if slot != SKIP_ROW]
    if len(set(used)) != len(used):
        raise InvalidCase("two rows of one operation have the same slot")
