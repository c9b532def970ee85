"""Edited lines are those of a checkout that differ from its base release: how many of them ran, and which did not.

Workers know what ran. An edit that no case reaches is not tested, whatever a run says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from harness.subject.summary import Line
from harness.worker.losses import WorkerError, WorkerLost
from harness.worker.process import WorkerProcess

QUESTION = "edited lines"
"""What workers are asked: they answer with `answer`."""


ELSEWHERE = (
    "kernels and their host code run with --ops all, the scheduler, block managers and runners with --ops sequences"
)
"""What to try where no edited line is in what a run runs."""


class EditedLines(msgspec.Struct, frozen=True):
    """The edited lines of one statement of `function` in `file`."""

    file: str
    function: str
    lines: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.function} ({self.file}): {', '.join(map(str, self.lines))}"


MOST_NAMED = 8
"""Of a finding that ran more edited statements than this, the first ones alone are named."""


def edits_in_words(ran: Sequence[EditedLines]) -> str:
    """Which edited lines the case of a finding ran, as `FILE:LINE` that editors open; empty if it ran none."""
    if not ran:
        return ""
    named = [f"{one.file}:{one.lines[0]}{_others(one.lines)} ({one.function})" for one in ran[:MOST_NAMED]]
    more = f", and {len(ran) - MOST_NAMED} more" if len(ran) > MOST_NAMED else ""
    return f"edited lines that this finding ran: {', '.join(named)}{more}"


def _others(lines: Sequence[int]) -> str:
    """The lines after the first."""
    if len(lines) == 1:
        return ""
    whole = lines[-1] - lines[0] == len(lines) - 1
    return f"-{lines[-1]}" if whole else f" and {', '.join(map(str, lines[1:]))}"


class EditCoverage(msgspec.Struct, frozen=True):
    """How many edited lines there are, how many of them ran, and the statements that did not. `reason` is why that was
    not looked at, if it was not."""

    lines: int
    ran: int
    missed: list[EditedLines]
    reason: str | None = None

    @property
    def unlooked(self) -> str | None:
        """What a run that found nothing has to say about them; None if all of them ran."""
        if self.reason is not None:
            return f"edited lines not looked at: {self.reason}"
        if not self.lines:
            return f"none of the edited lines is in what ran here: {ELSEWHERE}"
        return f"{self.lines - self.ran} of {self.lines} edited lines did not run" if self.missed else None

    def in_words(self, *, verbose: bool) -> Iterator[Line]:
        """One line; with `verbose` also those that did not run."""
        if self.reason is not None:
            yield Line("", f"edited lines: not looked at: {self.reason}", "warning")
        elif not self.lines:
            yield Line("", f"edited lines: none in what ran here: {ELSEWHERE}", "warning")
        else:
            hint = " (--verbose names the others)" if self.missed and not verbose else ""
            text = f"edited lines: {self.ran} of {self.lines} ran{hint}"
            yield Line("", text, "warning" if self.missed else "plain")
        for missed in self.missed if verbose else ():
            yield Line("", f"  did not run: {missed}", "dim")


class _Answer(msgspec.Struct, frozen=True):
    edits: list[EditedLines]
    ran: list[EditedLines]


def answer(edits: Sequence[EditedLines], ran: Sequence[EditedLines]) -> bytes:
    """The answer of a worker: all edited lines in what it can run, and those that it ran."""
    return msgspec.msgpack.encode(_Answer(list(edits), list(ran)))


class EditTally:
    """Edited lines collected from the workers of one campaign."""

    def __init__(self) -> None:
        self._edits: dict[EditedLines, bool] = {}
        self._answered = False
        self._ran_before: set[EditedLines] = set()

    def remembered(self) -> list[EditedLines]:
        """What ran, for `recall` in a later part of the campaign."""
        return [*(edit for edit, ran in self._edits.items() if ran), *self._ran_before.difference(self._edits)]

    def recall(self, ran: Iterable[EditedLines]) -> None:
        """Add what an earlier part remembered, as far as these edits are still there."""
        self._ran_before.update(ran)

    def collect(self, workers: Iterable[WorkerProcess]) -> int:
        """Ask the workers. Returns how many gave no answer: what they ran is not known."""
        silent = 0
        for worker in workers:
            if not worker.alive:  # asking would start a new worker, which has run nothing
                silent += 1
                continue
            try:
                found = msgspec.msgpack.decode(worker.ask(QUESTION), type=_Answer)
            except (WorkerLost, WorkerError):
                silent += 1
                continue
            self._answered = True
            for edit in found.edits:
                self._edits.setdefault(edit, edit in self._ran_before)
            self._edits.update(dict.fromkeys(found.ran, True))
        return silent

    def coverage(self, reason: str | None = None) -> EditCoverage:
        """What ran. `reason`: why edited lines are not looked at."""
        if reason is None and not self._answered:
            reason = "no worker was left to ask"
        missed = [edit for edit, ran in self._edits.items() if not ran]
        lines, left = (sum(len(edit.lines) for edit in edits) for edits in (self._edits, missed))
        return EditCoverage(lines, lines - left, missed, reason)
