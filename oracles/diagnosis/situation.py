"""A situation is an operation that went wrong: where it started, what was right, and what was found instead."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.case import (
    SKIP_ROW,
    Case,
    Operation,
    Postprocess,
    PostprocessEntry,
    Precopy,
    Preprocess,
    ScalarCopy,
)
from harness.case.operations.rows import FRESH
from harness.memory import Image
from harness.oracles.before import Before
from harness.oracles.decisions import Move, decide, decide_postprocess, decide_scalar_copy
from harness.oracles.expected import Expected

Results = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True)
class Touchable:
    """Bytes `[start, start + size)` of the arena that kernels may touch, and whether they may write them."""

    start: int
    size: int
    writable: bool


@dataclass(frozen=True)
class Refused:
    """An access that a checking executor did not let happen: a load gave 0, a store did nothing."""

    offset: int
    width: int
    is_store: bool


@dataclass(frozen=True)
class Raced:
    """A byte that two accesses of one launch touched in no order, of programs or of warps of one program."""

    offset: int
    between: str


@dataclass(frozen=True)
class RowMove:
    """What one batch row asks for: a move of all its states."""

    row: int
    slot: int
    move: Move


@dataclass(frozen=True)
class Situation:
    """`expect` is the oracle itself, for another operation on the same memory. `results` and `found_results` are what
    the host saw before and after. `watched`: accesses that are not allowed were refused and are in `refused`, as far
    as they were kept; `races` are those that the race oracle found, if they were watched for (`races_watched`)."""

    before: Before
    operation: Operation
    expected: Expected
    found: Image
    results: Results
    found_results: Results
    expect: Callable[[Operation], Expected]
    touchable: Sequence[Touchable] = ()
    watched: bool = False
    refused: Sequence[Refused] = ()
    races: Sequence[Raced] = ()
    races_watched: bool = False
    late_writes: Sequence[str] = ()

    @property
    def case(self) -> Case:
        return self.before.case

    @functools.cached_property
    def moves(self) -> list[RowMove]:
        """What each row asks for, by the specification."""
        return moves_of(self.operation, self.before.layout.block_size)

    @functools.cached_property
    def masks(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """For each byte of the image, whether kernels may read it, and whether they may write it."""
        image = self.before.image
        if not self.touchable:
            everything = np.ones(len(image.data), dtype=bool)
            return everything, everything
        readable, writable = (
            image.like(np.zeros(len(image.data), np.uint8)),
            image.like(np.zeros(len(image.data), np.uint8)),
        )
        for span in self.touchable:
            try:
                readable.view(span.start, span.size)[:] = 1
                if span.writable:
                    writable.view(span.start, span.size)[:] = 1
            except IndexError:  # the target's own memory is no part of a case
                continue
        return readable.data.astype(bool), writable.data.astype(bool)

    @functools.cached_property
    def seams(self) -> NDArray[np.int64]:
        """Where one object that kernels may touch ends and another one begins, in order: an access that has bytes of
        both is refused. Objects that overlap are views of one."""
        found, reach = [], 0
        for span in sorted(self.touchable, key=lambda span: span.start):
            if span.start == reach > 0 and span.size:
                found.append(reach)
            reach = max(reach, span.start + span.size)
        return np.array(found, dtype=np.int64)


def moves_of(operation: Operation, block_size: int) -> list[RowMove]:
    """What each row of an operation asks for; nothing for operations that move no states."""
    if isinstance(operation, Postprocess | Precopy):
        decisions = decide(operation, block_size)
        return [
            RowMove(row, decision.slot, decision.move)
            for row, decision in enumerate(decisions)
            if decision is not None and decision.move is not None
        ]
    if isinstance(operation, PostprocessEntry):
        moves = [(row.slot, decide_postprocess(row, block_size).move) for row in operation.rows]
    elif isinstance(operation, ScalarCopy):
        moves = [
            (row.slot, decide_scalar_copy(row, within_blocks=operation.within_blocks).move) for row in operation.rows
        ]
    elif isinstance(operation, Preprocess):
        moves = []
        for row in operation.rows:
            source, destination = row.source_column(block_size), row.destination_column(block_size)
            stays = source in (FRESH, destination)
            moves.append((row.slot, None if stays else Move(source, destination, row.accepted - 1)))
    else:
        return []
    return [RowMove(row, slot, move) for row, (slot, move) in enumerate(moves) if move is not None and slot != SKIP_ROW]
