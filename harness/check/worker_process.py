"""A worker process is the campaign's side of a worker: it starts one, talks to it, and notices when it is lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

import harness
from harness.case import CHECKS, Case, InvalidCase, encode_case
from harness.check import whereabouts
from harness.check.outcome import RELATION, WITHIN, Evidence, Outcome, Seconds, Signature, Verdict
from harness.check.silence import LOOK_SECONDS, SHORTEST_LOOK_SECONDS, Silence
from harness.check.worker import OUTCOMES, Assignment
from harness.kernels.cache_directory import ENVIRONMENT_VARIABLE as CACHE_VARIABLE
from harness.kernels.cache_directory import cache_directory

KernelLine = tuple[str, str, int]
"""File, function and line number."""

STARTUP_SECONDS = 600.0
"""Loading a target may download a release."""


class WorkerRefused(Exception):
    """The target or the executor cannot be had; the message is one line a user can act on (exit status 2)."""


class WorkerError(Exception):
    """The harness failed inside a worker; the message is its traceback (exit status 4).

    `index` is the case of a campaign that it was at, if any.
    """

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index


def how_it_ended(status: int) -> str:
    """The end of a process in one word, from what `Popen.wait` gives: `crash-SIGSEGV`, `exit-3`."""
    return f"crash-{signal.Signals(-status).name}" if status < 0 else f"exit-{status}"


def is_from_outside(violation: str) -> bool:
    """Whether somebody else may have ended a process: a person, a supervisor, or Linux where memory runs out.

    No fault of a kernel sends these signals. So what was lost is asked once more, in a new process, before it counts.
    """
    return violation in ("crash-SIGKILL", "crash-SIGTERM", "crash-SIGHUP")


class WorkerLost(Exception):
    """The worker died or was killed while judging.

    `violation` says how: `crash-SIGSEGV`, `exit-3` or `hang`; `index` and `operation` say what it was at, and
    `answered` whether it had given the result of that case already.
    """

    def __init__(self, violation: str, index: int, operation: str, detail: str, answered: bool = False) -> None:
        super().__init__(violation)
        self.violation, self.index, self.operation, self.detail = violation, index, operation, detail
        self.answered = answered

    @property
    def from_outside(self) -> bool:
        """See is_from_outside."""
        return is_from_outside(self.violation)

    @property
    def notice(self) -> str:
        """A line for the user about a worker that was replaced."""
        ending = self.violation.removeprefix("crash-")
        return f"a worker was ended from outside ({ending}; is memory short?): what it was at is asked again"

    def outcome(self) -> Outcome:
        """The loss as a verdict: a crash is a finding."""
        operation, _, relation = self.operation.partition(WITHIN)
        oracle = RELATION + relation if relation else "isolation"
        signature = Signature(operation, oracle, self.violation, "process", "-")
        lines = last_words(self.detail)
        word = "" if self.violation == "hang" else " it said:"
        said = f";{word} {' / '.join(lines[:3])}" if lines else ""
        evidence = Evidence(
            f"the worker process was lost ({self.violation}) during {self.operation}{said}", (), 0, lines
        )
        return Outcome((Verdict(operation, "fail", signature=signature, evidence=evidence),), Seconds())


def last_words(text: str) -> tuple[str, ...]:
    """The lines that tell how a process ended: the trace of a fatal error from its head on, else the last lines."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("Extension modules:")]
    fatal = [i for i, line in enumerate(lines) if line.startswith("Fatal Python error")]
    if not fatal:
        return tuple(lines[-3:])
    trace = lines[fatal[-1] :]
    # Other threads come first, and have nothing to do with it.
    current = next((i for i, line in enumerate(trace) if line.startswith("Current thread")), 1)
    return (trace[0], *trace[current : current + 7])


class WorkerProcess:
    """One child process. `limit` is the most seconds that one operation may take."""

    def __init__(
        self,
        target: str,
        executor: str,
        *,
        limit: float,
        checks: tuple[str, ...] = CHECKS,
        on_notice: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._assignment = Assignment(target, executor, checks)
        self._limit = limit
        self._on_notice = on_notice
        self.drawn = b""
        """The last case that no seed and number can give again, as JSON: also of a process that was lost with it."""
        self._start()

    def _start(self) -> None:
        self._at = (-1, "start")
        self._answered = False
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        mine, theirs = socket.socketpair()
        with theirs:
            environment = dict(os.environ)
            root = str(Path(harness.__file__).resolve().parent.parent)
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), root]))
            environment["PYTHONFAULTHANDLER"] = "1"
            environment.pop("TRITON_INTERPRET", None)
            # A makeshift cache is ours to remove: a worker that is killed could not.
            environment[CACHE_VARIABLE] = str(cache_directory())
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",  # the folder we start in is not a place to import from
                    "-m",
                    "harness.check.worker",
                    str(theirs.fileno()),
                    msgspec.json.encode(self._assignment).decode(),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                env=environment,
            )
        self.connection = Connection(mine.detach())
        self._silence = Silence(self._process.pid)

    def wait_ready(self, *, again: bool = True) -> None:
        """Wait for the target to be loaded. Raises WorkerRefused, or WorkerError also for a process that died of it.

        With `again`, one that was ended from outside is replaced once: memory is shortest while workers start.
        """
        try:
            kind, _ = self._receive(STARTUP_SECONDS)
        except WorkerLost as lost:
            if again and lost.from_outside:
                self._on_notice(lost.notice)
                self.restart(again=False)
                return
            raise WorkerError(
                f"{lost.detail}\na worker was lost while it loaded the target ({lost.violation})".lstrip()
            ) from lost
        if kind != "ready":
            raise WorkerError(f"unexpected {kind!r} from a new worker")

    def check(
        self,
        case: Case,
        relations: tuple[str, ...] = (),
        most: int | None = None,
        *,
        sighted: bool = True,
        again: bool = True,
        index: int = -1,
    ) -> Outcome:
        """Judge one case, and ask relations about it if it passes. `most` and `sighted`: see Session.

        `index` is its number in a campaign, if it has one. Raises InvalidCase, or WorkerError with that index; a lost
        worker is an outcome, and needs `restart`. With `again`, one that was ended from outside is replaced and asked
        once more.
        """
        try:
            return self._check(case, relations, most, sighted, index)
        except WorkerLost as lost:
            if not (again and lost.from_outside):
                return lost.outcome()
            self._on_notice(lost.notice)
        self.restart()
        return self.check(case, relations, most, sighted=sighted, again=False, index=index)

    def _check(self, case: Case, relations: tuple[str, ...], most: int | None, sighted: bool, index: int) -> Outcome:
        try:
            self.connection.send(("check", (encode_case(case), relations, most, sighted, index)))
        except BrokenPipeError:
            raise self._lost() from None
        while True:
            kind, content = self.receive()
            if kind == "outcome":
                return OUTCOMES.decode(content)

    def kernel_lines(self) -> tuple[list[KernelLine], list[KernelLine]]:
        """Kernel lines that have run in this process, and all lines of the kernels launched. Raises WorkerLost."""
        self._send(-1, ("lines", None))
        kind, content = self.receive()
        if kind != "lines":
            raise WorkerError(f"unexpected {kind!r} when asked for kernel lines")
        lines: tuple[list[KernelLine], list[KernelLine]] = content
        return lines

    def time_operations(self, case: Case, launches: int) -> list[list[float]]:
        """Seconds of each of `launches` calls of each operation of a case, for benchmarks."""
        self.connection.send(("time", (encode_case(case), launches)))
        while True:
            kind, content = self.receive()
            if kind == "times":
                times: list[list[float]] = content
                return times

    def restart(self, *, again: bool = True) -> None:
        """Replace the process with a new one of the same assignment, and wait for it; `again` as in `wait_ready`."""
        self.close()
        self._start()
        self.wait_ready(again=again)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def send_range(self, recipe: Any, policy: Any, start: int, stop: int, deadline: float) -> None:
        """Have cases of the random engine judged. Raises WorkerLost."""
        self._send(start, ("range", (recipe, policy, start, stop, deadline)))

    def send_explore(
        self, recipe: Any, policy: Any, start: int, stop: int, deadline: float, *, fail_fast: bool
    ) -> None:
        """Have cases that Hypothesis draws judged. Raises WorkerLost."""
        self._send(start, ("explore", (recipe, policy, start, stop, deadline, fail_fast)))

    def _send(self, start: int, message: tuple[str, Any]) -> None:
        self._silence.end()
        self._at = (start, "draw")
        try:
            self.connection.send(message)
        except BrokenPipeError:
            raise self._lost() from None

    def receive(self) -> tuple[str, Any]:
        """The next message. Raises InvalidCase, WorkerRefused, WorkerError or WorkerLost.

        WorkerLost also after the time limit, WorkerRefused if a kernel of the target does not compile.
        """
        return self._receive(self._limit)

    def hear(self) -> tuple[str, Any] | None:
        """The message that is there, or None if it was no answer. Raises as `receive` does, but does not wait."""
        try:
            kind, content = self.connection.recv()
        except (EOFError, OSError):  # also in the middle of a message
            raise self._lost() from None
        self._silence.end()
        if kind == "at":
            self._at = content
            self._answered = False
        elif kind == "drawn":
            self.drawn = content
        elif kind == "notice":
            self._on_notice(content)
        elif kind == "fault":
            self._process.wait()
            raise WorkerLost("device-fault", *self._at, content)
        elif kind == "invalid":
            raise InvalidCase(content)
        elif kind == "refused":
            self.close()
            raise WorkerRefused(content)
        elif kind == "error":
            traceback, index = content
            raise WorkerError(traceback, None if index < 0 else index)
        else:
            self._answered = kind == "result"
            return kind, content
        return None

    def overdue(self) -> bool:
        """Whether the worker could have answered for longer than the limit, and said nothing (see Silence); what nobody
        listened to yet was said. May be asked as often or as seldom as one likes."""
        return self._silence.seconds() > self._limit and not self.connection.poll()

    def kill_hung(self) -> WorkerLost:
        """End a worker that is overdue; the last thing it is asked is where it was."""
        tail = self._tail()
        where = whereabouts.ask(self._process, self._said) if self._at[1] != "start" else []
        self._process.kill()
        self._process.wait()
        lines = [tail, f"nothing heard for {self._limit:g} seconds", *where]
        return WorkerLost("hang", *self._at, "\n".join(lines))

    def _receive(self, limit: float) -> tuple[str, Any]:
        self._silence.end()
        while True:
            left = limit - self._silence.seconds()
            if not self.connection.poll(min(max(left, SHORTEST_LOOK_SECONDS), LOOK_SECONDS) if left > 0 else 0):
                if left <= 0:
                    raise self.kill_hung()
                continue
            answer = self.hear()
            if answer is not None:
                return answer

    def _lost(self) -> WorkerLost:
        return WorkerLost(how_it_ended(self._process.wait()), *self._at, self._tail(), self._answered)

    def _tail(self) -> str:
        self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, self._said.tell() - 16384))
        return self._said.read().decode(errors="replace")

    def close(self) -> None:
        """End the process. Safe to call twice."""
        self.connection.close()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._said.close()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
