"""A step plan is what a worker asks the device to do in one step: copies, moves, and the rows of the forward pass.

It is the stream of kernel arguments that a runner emits, with the block tables that the kernels would read. Workers
build it from production host code; the symbolic device and the byte arena both run it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

Table = list[int]
"""The leading cells of a block-table row: physical block ids by column."""


class PlannedRow(NamedTuple):
    """One request of the batch. Counts in tokens.

    `slot` is its row in the tables and arrays that kernels index. `speculative` rows read column `state_column +
    accepted - 1` and keep a state after each token. `known` is where the text that the worker knows ends, `samples`
    whether what the row samples is kept. A layer exports a state to `checkpoint_column` after `checkpoint_offset`
    tokens of the row; 0: it does not. `mamba` and `attention` are the table rows of each group of either kind.
    """

    request: str
    slot: int
    computed: int
    scheduled: int
    drafts: int
    speculative: bool
    accepted: int
    state_column: int
    samples: bool
    checkpoint_offset: int
    checkpoint_column: int
    mamba: tuple[Table, ...]
    attention: tuple[Table, ...]


class MoveRow(NamedTuple):
    """One row of precopy or postprocess: move (source, destination, bias) in every group, rows of `mamba`."""

    request: str
    slot: int
    source: int
    destination: int
    bias: int
    mamba: tuple[Table, ...]


class PostprocessInput(NamedTuple):
    """What the postprocess kernel gets for one row (docs/domain.md, section 3)."""

    request: str
    slot: int
    scheduled: int
    computed: int
    drafts: int
    accepted: int
    state_column: int
    mamba: tuple[Table, ...]


class StartRow(NamedTuple):
    """What the kernels before the forward pass get for one row of the batch, including rows that move nothing.

    `source` is the state's column before the step (-1: none), `destination` the one from now on. `accepted` is the
    count that the V2 runner's advance finds; V1 kernels use neither it nor `computed` and `scheduled`.
    """

    slot: int
    source: int
    destination: int
    bias: int
    accepted: int
    computed: int
    scheduled: int


@dataclass
class StepPlan:
    """What happens before and in the forward pass, in this order; postprocess follows once acceptance is known.

    `zeroed` are blocks that the runner clears, `copies` pairs (source, destination) of whole blocks that it copies.
    `starts` has a row for each of `rows`; `fused` says whether a kernel decides from them, or the host by a copy list.
    """

    zeroed: list[int] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)
    precopy: list[MoveRow] = field(default_factory=list)
    rows: list[PlannedRow] = field(default_factory=list)
    starts: list[StartRow] = field(default_factory=list)
    fused: bool = True
