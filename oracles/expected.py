"""The expected result of one operation: every byte of the case's memory, and what the host sees.

It includes the expected amount of work, so that a target that did nothing differs from one that had nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from harness.case import Op
from harness.case.operations.results import ACCEPTED_OUT
from harness.memory import ArraySpan, Image
from harness.oracles.before import Before
from harness.oracles.conflicts import refuse_conflicts
from harness.oracles.copies import StateCopy, copy_of_state
from harness.oracles.decisions import Move


@dataclass(frozen=True)
class Expected:
    """What one operation must leave behind.

    `image` is the case's whole memory; `copies` the state copies that must happen, `resets` the number of accepted
    counts that change, `arrays` the arguments that are written. `results[name]` are entries of what the host sees
    afterwards (harness.check.operations lists the names); entries that are not given stay as they were, except those
    of the names in `undefined`, which may have any value. `defined` are spans (start, size) that the harness itself
    fills in, where no target is involved. `raises` is text that must occur in the error with which the operation has
    to end, None if it must not fail.
    """

    image: Image
    copies: list[StateCopy] = field(default_factory=list)
    resets: int = 0
    arrays: tuple[ArraySpan, ...] = ()
    defined: tuple[tuple[int, int], ...] = ()
    results: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    undefined: frozenset[str] = frozenset()
    raises: str | None = None
    launches: bool = False

    @property
    def accepted_out(self) -> list[int] | None:
        """The V1 result by batch row; None for operations without one."""
        counts = self.results.get(ACCEPTED_OUT)
        return None if counts is None else list(counts.values())

    @property
    def expects_work(self) -> bool:
        """Whether a launch must happen."""
        return bool(self.copies) or self.resets > 0 or self.launches


Expectation = Callable[[Op, Before], Expected]
"""The result that one kind of operation must have. Raises InvalidCase if that is outside the preconditions."""


def move_states(before: Before, moves: Iterable[tuple[int, int, Move]]) -> tuple[Image, list[StateCopy]]:
    """Memory after every state of every group has moved for each (batch row, slot, move); and the copies made.

    Raises InvalidCase if a move is outside the preconditions.
    """
    layout, plan, image = before.layout, before.plan.base, before.image
    shape = (layout.table_rows, layout.table_columns)
    tables = [image.view(start, plan.table_bytes).view(np.int32).reshape(shape) for start in plan.tables]

    def cell(group: int, slot: int, column: int) -> int:
        return int(tables[group][slot, column])

    copies = []
    for row, slot, move in moves:
        for place in plan.states:
            copy = copy_of_state(layout, place, row, slot, move, cell)
            if copy is not None:
                copies.append(copy)
    refuse_conflicts(copies)
    after = image.copy()
    for copy in copies:
        after.rows(copy.destination, *copy.shape)[:] = image.rows(copy.source, *copy.shape)
    return after, copies


def write_entries(after: Image, span: ArraySpan, entries: Mapping[int, int]) -> None:
    """Put int32 values into entries of an array."""
    after.view(span.start, span.size).view(np.int32)[list(entries)] = list(entries.values())
