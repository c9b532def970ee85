"""A kind is how operations of one name are drawn: for the total domain from a board, for the reachable one from a step.

The same numbers reach an operation in both domains; only where they come from differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.case import SKIP_ROW, Layout, Operation, Runner
from harness.generators.draw import Draw
from harness.generators.operations import OperationName
from harness.generators.simulator import Scheduled
from harness.generators.total_rows import TotalRows


@dataclass(frozen=True)
class TotalBatch:
    """What a total operation is drawn from: slots in batch order (some to be skipped, for V2), and a source of rows."""

    draw: Draw
    layout: Layout
    runner: Runner
    slots: Sequence[int]
    rows: TotalRows

    @property
    def used_slots(self) -> list[int]:
        """Slots that are not to be skipped."""
        return [slot for slot in self.slots if slot != SKIP_ROW]


@dataclass(frozen=True)
class ReachableBatch:
    """What a reachable operation is drawn from: one simulated step, its requests in batch order."""

    draw: Draw
    layout: Layout
    runner: Runner
    step: Sequence[Scheduled]


Moves = Callable[[Scheduled, int, bool], bool]


def anything(row: Scheduled, block_size: int, decoding: bool) -> bool:
    """For kinds that have something to do in every step: a decode is waited for now and then."""
    return not decoding or row.draft > 0


@dataclass(frozen=True)
class Kind:
    """`moves(row, block_size, decoding)` says whether a request's part in a step makes such an operation do something,
    and if `decoding` something that only decodes do."""

    name: OperationName
    runners: tuple[Runner, ...]
    total: Callable[[TotalBatch], Operation]
    reachable: Callable[[ReachableBatch], Operation]
    moves: Moves = anything
