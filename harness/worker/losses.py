"""A loss is a worker that died or hung while it judged: how it ended, at what, and whether that concerns a case."""

from __future__ import annotations

import signal

from harness.refusal import Refusal
from harness.worker.memory import MEMORY_LIMIT

OUTSIDE_ANY_CASE = ("start", "draw")
"""Stages of a worker in which no case is judged."""


class WorkerRefused(Refusal):
    """The target or the executor is not available; the message is one line a user can act on (exit status 2)."""


class WorkerError(Exception):
    """The harness failed inside a worker; the message is its traceback (exit status 4).

    `index` is the case of a campaign that it was judging, if any.
    """

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index


class TimeUp(Exception):
    """The time that a worker had is over. What it was doing has no result, and its process is ended."""


class WorkerLost(Exception):
    """The worker died or was killed while judging.

    `violation` says how: `crash-SIGSEGV`, `exit-3`, `hang`, `device-fault` or `memory-limit`; `index` and `stage` say
    what it was doing, and `answered` whether it had sent the result of that case already. `detail` is the end of its
    output.
    """

    def __init__(self, violation: str, index: int, stage: str, detail: str, answered: bool = False) -> None:
        super().__init__(violation)
        self.violation, self.index, self.stage, self.detail = violation, index, stage, detail
        self.answered = answered

    @property
    def outside_any_case(self) -> bool:
        """Whether the loss says nothing about any case."""
        return self.stage in OUTSIDE_ANY_CASE

    @property
    def doubtful(self) -> bool:
        """Whether something else may have ended the process than what it judged: a person, a supervisor, or Linux when
        memory ran out; its own parent, for memory that earlier cases took.

        No fault of a kernel sends these signals. So the lost request is repeated once, in a new process, before it
        counts.
        """
        return self.violation in ("crash-SIGKILL", "crash-SIGTERM", "crash-SIGHUP", MEMORY_LIMIT)

    @property
    def notice(self) -> str:
        """A line for the user about a worker that was replaced."""
        if self.violation == MEMORY_LIMIT:
            return "a worker went over its memory limit: its work is repeated in a new one"
        ending = self.violation.removeprefix("crash-")
        return f"a worker was ended from outside ({ending}; is memory short?): its work is repeated"

    @property
    def last_words(self) -> tuple[str, ...]:
        """The lines that say how it ended."""
        return last_words(self.detail)


def how_it_ended(status: int) -> str:
    """The end of a process in one word, from what `Popen.wait` gives: `crash-SIGSEGV`, `exit-3`."""
    return f"crash-{signal.Signals(-status).name}" if status < 0 else f"exit-{status}"


def last_words(text: str) -> tuple[str, ...]:
    """The lines that say how a process ended: the trace of a fatal error from its head on, else the last lines."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("Extension modules:")]
    fatal = [i for i, line in enumerate(lines) if line.startswith("Fatal Python error")]
    if not fatal:
        return tuple(lines[-3:])
    trace = lines[fatal[-1] :]
    # Other threads come first, and are not involved.
    current = next((i for i, line in enumerate(trace) if line.startswith("Current thread")), 1)
    return (trace[0], *trace[current : current + 7])
