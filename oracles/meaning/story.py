"""A story is what the last steps did with a request or a block, in words: how a violation came about.

A violation says what is wrong at one place; the mistake is often a step earlier, and somewhere else: a copy that took
the wrong column, a block that had another owner.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from harness.oracles.meaning.plan import ForwardRow, MoveRow, StepPlan, Table
from harness.oracles.meaning.violation import Violation

STEPS = 4
"""Steps that a story goes back."""

MOST_LINES = 40


@dataclass
class _Step:
    """One step as it was planned, and what came of it."""

    number: int
    plan: StepPlan
    kept: Mapping[str, int] = field(default_factory=dict)
    moved: list[MoveRow] = field(default_factory=list)


class Story:
    """`mamba` are the numbers of the Mamba groups, in the order in which rows have their tables."""

    def __init__(self, mamba: tuple[int, ...]) -> None:
        self._mamba = mamba
        self._steps: deque[_Step] = deque(maxlen=STEPS)

    def begin(self, number: int, plan: StepPlan) -> None:
        """A step is about to run."""
        self._steps.append(_Step(number, plan))

    def end(self, kept: Mapping[str, int], moved: list[MoveRow]) -> None:
        """It ran: tokens kept by request, and what its postprocess moves."""
        self._steps[-1].kept, self._steps[-1].moved = kept, moved

    def tell(self, violation: Violation) -> list[str]:
        """What concerns the violation's request, its block or whoever wrote that last; everything if it has neither."""
        requests = {violation.request, violation.writer.request}
        concerned = _Concerned(requests, violation.block)
        lines = [line for step in self._steps for line in self._lines(step, concerned)]
        if len(lines) > MOST_LINES:
            return [f"... {len(lines) - MOST_LINES} lines before", *lines[-MOST_LINES:]]
        return lines

    def _lines(self, step: _Step, concerned: _Concerned) -> Iterator[str]:
        start, plan = f"step {step.number}: ", step.plan
        for source, destination in plan.copies:
            if concerned.blocks((source, destination)):
                yield f"{start}block {source} is copied to block {destination}"
        for move in plan.precopy:
            if concerned.row(move.request, move.mamba):
                yield start + self._move("precopy", move)
        for row in plan.rows:
            if concerned.row(row.request, (*row.mamba, *row.attention)):
                yield start + self._forward(row, step.kept.get(row.request))
        for move in step.moved:
            if concerned.row(move.request, move.mamba):
                yield start + self._move("postprocess", move)

    def _move(self, how: str, move: MoveRow) -> str:
        said = f"{how} of {move.request}: column {move.source} to column {move.destination}, bias {move.bias}"
        for group, table in zip(self._mamba, move.mamba, strict=True):
            state, window = _cell(table, move.source + move.bias), _cell(table, move.source)
            source = state if state == window else f"{state} (conv: {window})"
            said += f"; group {group}: {source} to {_cell(table, move.destination)}"
        return said

    def _forward(self, row: ForwardRow, kept: int | None) -> str:
        kind = "decode" if row.speculative else "row"
        said = f"{kind} of {row.request}: {row.scheduled} token{'s' * (row.scheduled != 1)} from {row.computed} on"
        if row.drafts:
            said += f", {row.drafts} of them drafts"
        if kept is not None and row.samples:
            said += f", {kept} sampled"
        said += f"; state column {row.state_column}"
        if row.speculative and row.accepted > 1:
            said += f", read at column {row.state_column + row.accepted - 1}"
        for group, table in zip(self._mamba, row.mamba, strict=True):
            said += f"; group {group}: {_cell(table, row.state_column)}"
        if row.checkpoint_offset:
            said += f"; a checkpoint after {row.checkpoint_offset} tokens to column {row.checkpoint_column}"
        return said


class _Concerned:
    """Whether something has to do with requests or with a block (-1: none)."""

    def __init__(self, requests: set[str], block: int) -> None:
        self._requests, self._block = requests, block
        self._all = block < 0 and not any(request.startswith("request") for request in requests)

    def row(self, request: str, tables: Iterable[Table]) -> bool:
        return self._all or request in self._requests or any(self._block in table for table in tables)

    def blocks(self, blocks: Iterable[int]) -> bool:
        return self._all or self._block in blocks


def _cell(table: Table, column: int) -> str:
    """The block of a column; a column outside of the row has none."""
    if not 0 <= column < len(table):
        return "outside of the row"
    return f"block {table[column]}" if table[column] else "the null block"
