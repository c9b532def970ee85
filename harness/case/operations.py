"""An operation is one call of the system under test, with the numbers of each request in the batch.

A row is one request of the batch, in batch order. `slot` is the index of the request's entries in the per-request
arrays and of its row in the block tables: the batch row itself for the V1 runner, a free choice for V2, whose
`idx_mapping` is made of the slots. A row whose slot is `SKIP_ROW` is skipped by the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from harness.case.problem import InvalidCase

Runner = Literal["V1", "V2"]

SKIP_ROW = -1
"""Slot of a batch row that the kernel skips (V2 only)."""
FRESH = -1
"""Source column of a request that has no state yet."""

Slot = Annotated[int, Meta(ge=SKIP_ROW, le=2**20)]
Tokens = Annotated[int, Meta(ge=0, le=2**30)]
Column = Annotated[int, Meta(ge=0, le=2**20)]


class PostprocessRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request after a step: counts in tokens, `state_column` is the block-table column of its running state."""

    slot: Slot
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
        """Tokens in the state after this step; what the V2 runner hands over instead of the parts."""
        return self.running + self.accepted - 1


class PrecopyRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request before a step: move from `source_column` (or FRESH) to `destination_column`, `bias` tokens on."""

    slot: Slot
    source_column: Annotated[int, Meta(ge=FRESH, le=2**20)]
    destination_column: Column
    bias: Tokens


class Postprocess(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="postprocess"):
    """Move accepted state to where the prefix cache expects it (docs/domain.md, section 3)."""

    runner: Runner
    rows: Annotated[tuple[PostprocessRow, ...], Meta(max_length=2**14)]

    def __post_init__(self) -> None:
        _check_slots(self.runner, [row.slot for row in self.rows])
        for i, row in enumerate(self.rows):
            if row.slot != SKIP_ROW and row.running < 1:
                raise InvalidCase(f"postprocess row {i}: computed + scheduled - draft must be at least 1")


class Precopy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="precopy"):
    """Move running states into their requests' new blocks (docs/domain.md, section 4)."""

    runner: Runner
    rows: Annotated[tuple[PrecopyRow, ...], Meta(max_length=2**14)]

    def __post_init__(self) -> None:
        _check_slots(self.runner, [row.slot for row in self.rows])


Operation = Postprocess | Precopy
Row = PostprocessRow | PrecopyRow


def rows_of(operation: Operation) -> tuple[Row, ...]:
    """The batch rows of an operation, whichever it is."""
    return operation.rows


def _check_slots(runner: Runner, slots: Sequence[int]) -> None:
    if runner == "V1" and list(slots) != list(range(len(slots))):
        raise InvalidCase("a V1 operation has no mapping: the slot of every row is its batch row")
    used = [slot for slot in slots if slot != SKIP_ROW]
    if len(set(used)) != len(used):
        raise InvalidCase("two rows of one operation have the same slot")
