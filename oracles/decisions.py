"""A decision is what one request asks for in one operation: which columns to move, and what its accepted count becomes.

Plain arithmetic on one request at a time, to be compared by eye with docs/domain.md, sections 3 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.case import FRESH, SKIP_ROW, Postprocess, PostprocessRow, Precopy, PrecopyRow


@dataclass(frozen=True)
class Move:
    """Every state of every group moves from `source` to `destination` (columns), advanced by `bias` tokens."""

    source: int
    destination: int
    bias: int


@dataclass(frozen=True)
class Decision:
    """`move` is None if nothing moves; `accepted` is the count afterwards, None if the operation does not change it."""

    slot: int
    move: Move | None
    accepted: int | None


def decide(operation: Postprocess | Precopy, block_size: int) -> list[Decision | None]:
    """The decision of each batch row; None for a row that the mapping skips."""
    if isinstance(operation, Postprocess):
        return [None if row.slot == SKIP_ROW else decide_postprocess(row, block_size) for row in operation.rows]
    return [None if row.slot == SKIP_ROW else decide_precopy(row) for row in operation.rows]


def decide_postprocess(row: PostprocessRow, block_size: int) -> Decision:
    running = row.computed + row.scheduled - row.draft
    new = running + row.accepted - 1
    aligned = new // block_size * block_size
    if aligned < running:
        return Decision(row.slot, None, row.accepted)
    bias = aligned - running
    source = row.state_column
    destination = aligned // block_size - 1
    accepted = 1 if source == destination else row.accepted
    if source == destination and bias == 0:
        return Decision(row.slot, None, accepted)
    return Decision(row.slot, Move(source, destination, bias), accepted)


def decide_scalar_copy(row: PrecopyRow, *, within_blocks: bool) -> Decision:
    if within_blocks and row.source_column == row.destination_column != FRESH and row.bias > 0:
        return Decision(row.slot, Move(row.source_column, row.destination_column, row.bias), None)
    return decide_precopy(row)


def decide_precopy(row: PrecopyRow) -> Decision:
    if row.source_column == FRESH or row.source_column == row.destination_column:
        return Decision(row.slot, None, None)
    return Decision(row.slot, Move(row.source_column, row.destination_column, row.bias), None)
