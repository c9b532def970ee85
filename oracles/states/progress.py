"""Progress is that requests get further: a step computes a token of one that was never computed before.

An engine may have steps without progress: an asynchronous one whose results are in flight, one that computes again what
a preemption threw away, one that is paused. It must not stay so. Two counts say that it does (docs/sequences.md,
"Progress"): of consecutive steps without any row though nothing is in flight, and of steps in which rows run and no
request gets further than it once was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from harness.case.step_plan import PlannedRow
from harness.oracles.states.device import NO_WRITER
from harness.oracles.states.violation import NO_PROGRESS, Violation, ViolationFound, in_tokens

MOST_EMPTY = 8
"""This number of consecutive steps without a row, while requests wait, is a violation. Releases have one or two:
two steps are in flight at most, and what a step decides, such as a preemption, is done by the next one."""


class Situation(NamedTuple):
    """An engine that has scheduled a step: the tokens (prompt and outputs) of each request that has not ended, whether
    it waits for a client (scheduling is paused, or a session that holds blocks has no input), whether results are in
    flight, the token budget, and how many of all blocks are free."""

    unfinished: Mapping[str, int]
    paused: bool
    in_flight: bool
    budget: int
    free_blocks: int
    blocks: int


class Progress:
    """Watches one sequence. Raises ViolationFound."""

    def __init__(self) -> None:
        self._furthest: dict[str, int] = {}
        """The most tokens that were ever computed of each request."""
        self._ran: dict[str, int] = {}
        """The last step in which each request had a row."""
        self._arrived: dict[str, int] = {}
        """The first step after the arrival of each request."""
        self._empty = 0
        self._repeated = 0

    def arrives(self, request: str, number: int) -> None:
        """A request arrives before step `number`."""
        self._arrived[request] = number

    def thrown_away(self) -> None:
        """The cache is reset from outside: requests have to compute again what they had."""
        self._repeated = 0

    def step(self, number: int, rows: Iterable[PlannedRow], situation: Callable[[], Situation]) -> None:
        """Step `number` ran these rows. `situation` is called if none of them got further."""
        ran = further = False
        for row in rows:
            ran = True
            self._ran[row.request] = number
            end = row.computed + row.scheduled - row.drafts
            if end > self._furthest.get(row.request, 0):
                self._furthest[row.request] = end
                further = True
        if further:
            self._empty = self._repeated = 0
            return
        now = situation()
        if now.paused or not now.unfinished:
            self._empty = self._repeated = 0
            return
        if ran:
            self._empty, self._repeated = 0, self._repeated + 1
        elif not now.in_flight:
            self._empty, self._repeated = self._empty + 1, self._repeated + 1
        if self._empty >= MOST_EMPTY:
            self._fail("rows", f"no row for {self._empty} steps", number, now)
        # Computing everything again takes a step for each token at most.
        if self._repeated > MOST_EMPTY + sum(now.unfinished.values()):
            self._fail("tokens", f"nothing new for {self._repeated} steps", number, now)

    def _fail(self, what: str, how_long: str, number: int, now: Situation) -> None:
        since = {
            request: self._ran[request] + 1 if request in self._ran else self._arrived[request]
            for request in now.unfinished
        }
        waiting = sorted(since, key=lambda request: (since[request], request))
        each = ", ".join(
            f"{request} since step {since[request]}, {self._furthest.get(request, 0)} of "
            f"{in_tokens(now.unfinished[request])} computed"
            for request in waiting
        )
        free = f"{now.free_blocks} of {now.blocks} blocks are free"
        text = f"{how_long}; budget {in_tokens(now.budget)}, {free}; waiting: {each}"
        raise ViolationFound(Violation(NO_PROGRESS, what, number, waiting[0], -1, -1, -1, NO_WRITER, text, ""))
