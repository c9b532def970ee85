"""A history is what the last steps did with a request or a block, as text: how a violation came about.

A violation says what is wrong at one place; the mistake is often in an earlier step and elsewhere: a copy that took
the wrong column, a block that had another owner, a request that was preempted or left out of a step. Every step is
kept for this purpose, and few are ever printed. So steps are kept as data, and formatted only when a history is needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.case.step_plan import MoveRow, PlannedRow, StepPlan, Table
from harness.oracles.states.violation import Violation, in_tokens

STEPS = 4
"""Number of steps in a history."""

MOST_LINES = 40


class Decisions(NamedTuple):
    """What the scheduler decided in one step, by request.

    `finished` are those that are gone since the previous step, including aborted ones; `preempted` are those that are
    back in the queue. `started` and `resumed` say how many tokens count as computed: the worker gets the former as new
    requests, the latter as requests that it knows. `scheduled` are the tokens of all that run, `drafts` how many of
    them are drafts.
    """

    finished: Collection[str] = ()
    preempted: Collection[str] = ()
    started: Mapping[str, int] = {}
    resumed: Mapping[str, int] = {}
    scheduled: Mapping[str, int] = {}
    drafts: Mapping[str, int] = {}


@dataclass
class _Step:
    """One step as decided and planned, and its result. `again` are requests that started before."""

    number: int
    decisions: Callable[[], Decisions] = Decisions
    again: Collection[str] = ()
    plan: StepPlan | None = None
    kept: Mapping[str, int] = field(default_factory=dict)
    moved: list[MoveRow] = field(default_factory=list)


class History:
    """`mamba` are the numbers of the Mamba groups, in the order of the tables in a row."""

    def __init__(self, mamba: tuple[int, ...]) -> None:
        self._mamba = mamba
        self._steps: deque[_Step] = deque(maxlen=STEPS + 1)  # the first only says who was running
        self._started: set[str] = set()

    def schedule(self, number: int, started: Iterable[str], decisions: Callable[[], Decisions]) -> None:
        """A step is scheduled: names of requests that it starts, and a function that is called if it is printed."""
        names = set(started)
        self._steps.append(_Step(number, decisions, names & self._started))
        self._started |= names

    def begin(self, number: int, plan: StepPlan) -> None:
        """A step is about to run."""
        if not self._steps or self._steps[-1].number != number:
            self._steps.append(_Step(number))
        self._steps[-1].plan = plan

    def end(self, kept: Mapping[str, int], moved: list[MoveRow]) -> None:
        """The step ran: tokens kept by request, and the moves of its postprocess."""
        self._steps[-1].kept, self._steps[-1].moved = kept, moved

    def tell(self, violation: Violation) -> list[str]:
        """The lines about the violation's request, its block or the block's last writer; all if it has neither."""
        requests = {violation.request, violation.writer.request}
        concerned = _Concerned(requests, violation.block, self._steps)
        running: set[str] = set()
        lines = []
        for at, step in enumerate(self._steps):
            found = [*self._decided(step, concerned, running), *self._lines(step, concerned)]
            if at or len(self._steps) <= STEPS:
                lines += [f"step {step.number}: {line}" for line in found]
        if len(lines) > MOST_LINES:
            return [f"... {len(lines) - MOST_LINES} lines before", *lines[-MOST_LINES:]]
        return lines

    def _decided(self, step: _Step, concerned: _Concerned, running: set[str]) -> list[str]:
        """The scheduler's decisions. `running` are requests that ran before the step; updated to those running now."""
        decisions = step.decisions()
        resumed = dict(decisions.resumed)
        found = [(name, "finished or aborted") for name in sorted(decisions.finished)]
        found += [(name, "preempted") for name in sorted(decisions.preempted)]
        running.difference_update(decisions.finished, decisions.preempted)
        for name, computed in decisions.started.items():
            if name in step.again:
                resumed[name] = computed
            else:
                found.append((name, f"admitted with {in_tokens(computed)} computed"))
        found += [(name, f"resumed with {in_tokens(computed)} computed") for name, computed in resumed.items()]
        found += [(name, "left out (not scheduled)") for name in sorted(running.difference(decisions.scheduled))]
        if step.plan is None:  # nothing else says it
            for name, count in decisions.scheduled.items():
                drafts = decisions.drafts.get(name, 0)
                found.append((name, f"scheduled, {in_tokens(count)}{f', {_drafts(drafts)}' if drafts else ''}"))
        running.update(decisions.scheduled)
        return [f"{name} {text}" for name, text in found if concerned.owner(name)]

    def _lines(self, step: _Step, concerned: _Concerned) -> Iterator[str]:
        plan = step.plan or StepPlan()
        for source, destination in plan.copies:
            if concerned.blocks((source, destination)):
                yield f"block {source} is copied to block {destination}"
        for move in plan.precopy:
            if concerned.row(move.request, move.mamba):
                yield self._move("precopy", move)
        for row in plan.rows:
            if concerned.row(row.request, (*row.mamba, *row.attention)):
                yield self._forward(row, step.kept.get(row.request))
        for move in step.moved:
            if concerned.row(move.request, move.mamba):
                yield self._move("postprocess", move)

    def _move(self, how: str, move: MoveRow) -> str:
        text = f"{how} of {move.request}: column {move.source} to column {move.destination}, bias {move.bias}"
        for group, table in zip(self._mamba, move.mamba, strict=True):
            state, window = _cell(table, move.source + move.bias), _cell(table, move.source)
            source = state if state == window else f"{state} (conv: {window})"
            text += f"; group {group}: {source} to {_cell(table, move.destination)}"
        return text

    def _forward(self, row: PlannedRow, kept: int | None) -> str:
        kind = "decode" if row.speculative else "row"
        text = f"{kind} of {row.request}: {in_tokens(row.scheduled)} from position {row.computed}"
        if row.drafts:
            text += f", {_drafts(row.drafts)}"
        if kept is not None and row.samples:
            text += f", {kept} sampled"
        text += f"; state column {row.state_column}"
        if row.speculative and row.accepted > 1:
            text += f", read at column {row.state_column + row.accepted - 1}"
        for group, table in zip(self._mamba, row.mamba, strict=True):
            text += f"; group {group}: {_cell(table, row.state_column)}"
        if row.checkpoint_offset:
            text += f"; a checkpoint after {in_tokens(row.checkpoint_offset)} to column {row.checkpoint_column}"
        return text


class _Concerned:
    """Whether something concerns given requests or a block (-1: none)."""

    def __init__(self, requests: set[str], block: int, steps: Iterable[_Step]) -> None:
        self._requests, self._block = requests, block
        self._all = block < 0 and not any(request.startswith("request") for request in requests)
        rows = [row for step in steps if step.plan is not None for row in step.plan.rows]
        self._owners = requests | {row.request for row in rows if self._holds((*row.mamba, *row.attention))}

    def _holds(self, tables: Iterable[Table]) -> bool:
        return any(self._block in table for table in tables)

    def row(self, request: str, tables: Iterable[Table]) -> bool:
        return self._all or request in self._requests or self._holds(tables)

    def owner(self, request: str) -> bool:
        """Whether a request is one of them, or had the block in one of the steps."""
        return self._all or request in self._owners

    def blocks(self, blocks: Iterable[int]) -> bool:
        return self._all or self._block in blocks


def _drafts(count: int) -> str:
    """The number of drafts. It is not "of the tokens": an engine may plan more drafts than it runs."""
    return f"{count} draft{'s' * (count != 1)}"


def _cell(table: Table, column: int) -> str:
    """The block of a column; a column outside the row has none."""
    if not 0 <= column < len(table):
        return "outside of the row"
    return f"block {table[column]}" if table[column] else "the null block"
