"""A step row is what one request gets in one step, in numbers alone: to be compared between two that ran the same."""

from __future__ import annotations

import msgspec


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a step: `request` is its number, `slot` its place in the batch. Counts in tokens: `computed` by the
    device, `accepted` as layers get it. `state_column` is where its state is from now on, `move` from where it is moved
    before the step, and with which bias: None if it is not, empty where that is not known. `attention` and `mamba` are
    the rows of the block tables, by group: block ids by column."""

    request: int
    slot: int
    computed: int
    scheduled: int
    drafts: int
    accepted: int
    state_column: int
    move: tuple[int, ...] | None = None
    attention: tuple[tuple[int, ...], ...]
    mamba: tuple[tuple[int, ...], ...]
