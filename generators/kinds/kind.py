"""A kind is what generators and shrinking know about one class of operations: how they are drawn, and their rules.

For the total domain, operations are drawn from a board; for the reachable domain, from a step. An operation gets the
same numbers in both domains; only their source differs. A kind of program is drawn as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple

from harness.case import SKIP_ROW, Case, Layout, Op, Operation, Row, Runner, operation_name
from harness.generators.draw import Draw
from harness.generators.parts import Parts
from harness.generators.simulator import Scheduled, SimulatedRequest, Simulator
from harness.generators.total_rows import TotalRows

KindName = str
"""What users can name: an operation, or a kind of program."""


@dataclass(frozen=True)
class TotalBatch:
    """The source of a total operation: slots in batch order (some to be skipped, for V2), and a source of rows."""

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
    """The source of a reachable operation: one simulated step, with its requests in batch order."""

    draw: Draw
    layout: Layout
    runner: Runner
    step: Sequence[Scheduled]


@dataclass(frozen=True)
class Deployment:
    """The source of a reachable program: a simulator, and the requests with the step in which each arrives."""

    draw: Draw
    layout: Layout
    runner: Runner
    simulator: Simulator
    arrivals: list[tuple[int, SimulatedRequest]]


class PlainRequest(NamedTuple):
    """A request that a reader recognises at once: block size and drafts of the model (tokens), the row, and the number
    of columns of its table row."""

    block_size: int
    num_spec: int
    row: Row
    columns: int


def nothing_simpler(operation: Operation) -> tuple[()]:
    """For kinds whose operations consist of rows only."""
    return ()


@dataclass(frozen=True, kw_only=True)
class Kind(Generic[Op]):
    """What is known about every operation.

    `broken(case, operation)` names the rules of docs/domain.md, section 6, that the operation breaks: the rules that
    hold for every operation a scheduler can have asked for (rules.py). `plain` are the requests to try in place of a
    single one, simplest first. `simpler` yields the same operation with some part other than a row removed, the
    largest removal first.
    """

    operation: type[Op]
    broken: Callable[[Case, Op], Iterator[str]]
    plain: tuple[PlainRequest, ...] = ()
    simpler: Callable[[Op], Iterable[Op]] = nothing_simpler


COPIES_SHARE = 6
"""The weight of each kind that is a kernel which moves state; the others have 1. So a run that draws all of them judges
copies more than half as often as one that draws nothing else."""

Moves = Callable[[Scheduled, int, bool], bool]


def anything(row: Scheduled, block_size: int, decoding: bool) -> bool:
    """For kinds that have something to do in every step: occasionally a decode is awaited."""
    return not decoding or row.draft > 0


@dataclass(frozen=True, kw_only=True)
class DrawnKind(Kind[Op]):
    """A kind of operation that users can request by name.

    `moves(row, block_size, decoding)` says whether such an operation does something for a request in a step, and, if
    `decoding`, something that only decodes do. `weight` says how often it is drawn, relative to others.
    """

    runners: tuple[Runner, ...]
    total: Callable[[TotalBatch], Op]
    reachable: Callable[[ReachableBatch], Op]
    moves: Moves = anything
    weight: int = 1

    @property
    def name(self) -> KindName:
        return operation_name(self.operation)

    @property
    def summary(self) -> str:
        return self.operation.summary

    @property
    def total_runners(self) -> tuple[Runner, ...]:
        return self.runners


AnyKind = Kind[Any]
AnyDrawnKind = DrawnKind[Any]


@dataclass(frozen=True, kw_only=True)
class ProgramKind:
    """A kind of program that users can request by name: several steps, with operations that occur in no other program.

    The total domain has no steps: there `total` draws one of those operations, alone, for one of `total_runners`.
    """

    name: KindName
    summary: str
    runners: tuple[Runner, ...]
    reachable: Callable[[Deployment], Parts]
    total_runners: tuple[Runner, ...]
    total: Callable[[TotalBatch], Operation]
    weight: int = 1
