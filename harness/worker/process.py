"""A worker process is the parent's side of a worker: it starts one, talks to it, and notices when it is lost."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import ClassVar, Self

import msgspec

import harness
from harness.case import InvalidCase
from harness.files import NotSaved
from harness.kernels.cache_directory import ENVIRONMENT_VARIABLE as CACHE_VARIABLE
from harness.kernels.cache_directory import cache_directory
from harness.worker import stack_location
from harness.worker.losses import TimeUp, WorkerError, WorkerLost, WorkerRefused, how_it_ended
from harness.worker.memory import MEMORY_LIMIT, MemoryWatch, in_words
from harness.worker.messages import (
    Ask,
    At,
    CaseResult,
    DeviceLost,
    Drawn,
    Failed,
    Invalid,
    JudgeCase,
    JudgeRange,
    RangeDone,
    Ready,
    Refused,
    Request,
    Stop,
    Unsaved,
    WorkerAnswer,
    WorkerNotice,
    receive_reply,
    send,
)
from harness.worker.silence import LOOK_SECONDS, SHORTEST_LOOK_SECONDS, Silence, seconds_run

STARTUP_SECONDS = 600.0
"""Loading a target may download a release."""

LOADING_SECONDS = 10.0
"""A message says that it still loads after this many seconds, then after twice as many, and so on."""

OWN_VARIABLES: dict[str, str | None] = {"PYTHONFAULTHANDLER": "1", "TRITON_INTERPRET": None}
"""Variables that every worker has or must not have (None): a judge that wants Triton's interpreter sets it itself."""

AwaitedReply = CaseResult | RangeDone | WorkerAnswer | Ready
"""Replies that a caller waits for; others are handled here."""


class Assignment(msgspec.Struct, frozen=True):
    """What a worker is started with: the place of the function that makes its judge (`module:function`), the text from
    which it makes it, and variables of its environment (None: absent). Equal assignments can share a worker.

    `interpreter` is the Python of another environment, in which the worker then runs; it imports from `path` and from
    that environment, and from nowhere else. None: the worker runs in the environment of its parent."""

    judge: str
    text: str
    environment: tuple[tuple[str, str | None], ...] = ()
    interpreter: str | None = None
    path: tuple[str, ...] = ()


class WorkerProcess:
    """One child process.

    `limit` is the maximum number of seconds between two messages of a worker that has a request: the time for one
    operation of a case, or one sequence. A lost worker is replaced at the next request. `on_notice` takes lines for the
    user.
    """

    SERVES: ClassVar[tuple[str, ...]] = ("-m", "harness.worker.child")
    """The module that Python runs in a child."""

    def __init__(
        self, assignment: Assignment, limit: float, on_notice: Callable[[str], None] = lambda text: None
    ) -> None:
        self.assignment, self._limit, self._on_notice = assignment, limit, on_notice
        self.drawn = b""
        """The last case that cannot be drawn again, as JSON; kept also if the process is lost with it."""
        self.until = float("inf")
        """When its time is over (`time.monotonic`). From then on it is not waited for: TimeUp is raised."""
        self._abandoned = False
        self._memory_limit: int | None = None
        self._memory: MemoryWatch | None = None
        self._start()

    def _start(self) -> None:
        self._at = At(-1, "start")
        self._answered = False
        self._lost = False
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        mine, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [
                    self.assignment.interpreter or sys.executable,
                    "-P",  # do not import from the current folder
                    *self.SERVES,
                    str(theirs.fileno()),
                    self.assignment.judge,
                    self.assignment.text,
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                env=_environment(self.assignment),
            )
        self.connection = Connection(mine.detach())
        self._silence = Silence(self._process.pid)
        self._watch_memory()

    def limit_memory(self, limit: int | None) -> None:
        """From now on, end a process of this worker whose resident size is more than `limit` bytes (None: any will do):
        a loss, as a hang is one."""
        self._memory_limit = limit
        self._watch_memory()

    def _watch_memory(self) -> None:
        if self._memory is not None:
            self._memory.close()
        limit = self._memory_limit
        self._memory = None if limit is None else MemoryWatch(self._process.pid, limit, self._process.kill)

    def wait_ready(self, *, again: bool = True) -> None:
        """Wait silently for the target to be loaded. `again`, and what is raised, as in `loading`."""
        for _ in self.loading(again=again):
            pass

    def loading(self, *, again: bool = True) -> Iterator[str]:
        """Wait for the target to be loaded; if that takes long, yield lines for the user that say so.

        With `again`, a worker that was ended from outside is replaced once: memory is shortest while workers start.
        Raises WorkerRefused, or WorkerError also for a process that died meanwhile.
        """
        start, patience = time.monotonic(), LOADING_SECONDS
        try:
            reply = None
            self._silence.end()
            while reply is None:
                reply = self._answer_within(STARTUP_SECONDS, start + patience - time.monotonic())
                if reply is None and time.monotonic() - start >= patience:
                    waited, ran = time.monotonic() - start, seconds_run(self._process.pid)
                    yield f"still loading after {waited:.0f} s, {ran:.0f} s of them on a processor"
                    patience *= 2
        except WorkerLost as lost:
            if lost.violation == MEMORY_LIMIT:
                assert self._memory_limit is not None
                much = in_words(self._memory_limit)
                raise WorkerRefused(
                    f"a worker takes more memory to load its target than --memory-limit allows: {much}"
                ) from lost
            if again and lost.doubtful and not self._abandoned:
                self._on_notice(lost.notice)
                self.restart(again=False)
                return
            raise WorkerError(
                f"{lost.detail}\na worker was lost while it loaded the target ({lost.violation})".lstrip()
            ) from lost
        if not isinstance(reply, Ready):
            raise WorkerError(f"unexpected {reply!r} from a new worker")

    def judge(self, case: bytes, how: bytes = b"", *, index: int = -1, again: bool = True) -> bytes:
        """The result of one case. `index` is its number in a campaign, if it has one.

        With `again`, a worker that was ended from outside is replaced, and the request is repeated once. Raises
        WorkerLost, InvalidCase, WorkerRefused, or WorkerError with that index.
        """
        try:
            self._send(JudgeCase(case, how, index), index)
            reply = self.receive()
        except WorkerLost as lost:
            if not (again and lost.doubtful) or self._abandoned:
                raise
            self._on_notice(lost.notice)
            return self.judge(case, how, index=index, again=False)
        if not isinstance(reply, CaseResult):
            raise WorkerError(f"unexpected {reply!r} instead of a result")
        return reply.result

    def ask(self, question: str, content: bytes = b"") -> bytes:
        """The answer to a question of the subject. Raises WorkerLost, WorkerRefused or WorkerError."""
        self._send(Ask(question, content), -1)
        reply = self.receive()
        if not isinstance(reply, WorkerAnswer):
            raise WorkerError(f"unexpected {reply!r} when asked for {question}")
        return reply.content

    def send_range(
        self, recipe: bytes, start: int, stop: int, deadline: float = float("inf"), *, fail_fast: bool = False
    ) -> None:
        """Request that cases of a recipe are judged; `receive` or `poll_message` give the results. Raises
        WorkerLost."""
        self._send(JudgeRange(recipe, start, stop, deadline, fail_fast), start)

    def stop_range(self) -> None:
        """Request that the range ends after its current case."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a loss is noticed when the answer is read
            send(self.connection, Stop())

    def _send(self, request: Request, start: int) -> None:
        if time.monotonic() >= self.until:
            raise TimeUp
        if self._lost or not self.alive:
            self.restart()
        self._silence.end()
        self._at, self._answered = At(start, "draw"), False
        try:
            send(self.connection, request)
        except (BrokenPipeError, ConnectionResetError):
            raise self._as_lost() from None

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def receive(self) -> AwaitedReply:
        """The next answer. Raises InvalidCase, WorkerRefused, WorkerError, NotSaved, or WorkerLost.

        WorkerLost also after the time limit, WorkerRefused if a kernel of the target does not compile.
        """
        return self._receive(self._limit)

    def poll_message(self) -> AwaitedReply | None:
        """The next message, or None if it is not an answer. Raises as `receive` does; to be called if there is one."""
        try:
            reply = receive_reply(self.connection)
        except (EOFError, OSError):  # also in the middle of a message
            raise self._as_lost() from None
        self._silence.end()
        match reply:
            case At():
                self._at, self._answered = reply, False
            case Drawn():
                self.drawn = reply.case
            case WorkerNotice():
                self._on_notice(reply.text)
            case DeviceLost():
                self._process.wait()
                self._lost = True
                # Assertions of a device are printed, and not part of its error.
                detail = f"{self._tail().rstrip()}\n{reply.text}"
                raise WorkerLost("device-fault", self._at.index, self._at.stage, detail)
            case Invalid():
                raise InvalidCase(reply.text)
            case Refused():
                raise WorkerRefused(reply.text)
            case Failed():
                raise WorkerError(reply.traceback, None if reply.index < 0 else reply.index)
            case Unsaved():
                raise NotSaved(reply.what, OSError(reply.number, reply.message, reply.path))
            case _:
                self._answered = isinstance(reply, CaseResult)
                return reply
        return None

    def overdue(self) -> bool:
        """Whether the worker could have answered for longer than the limit, and did not (see Silence); a message that
        waits to be read counts as an answer. It may be called at any rate."""
        return self._silence.seconds() > self._limit and not self.connection.poll()

    def kill_hung(self) -> WorkerLost:
        """End a worker that is overdue, after asking it for its stack location."""
        tail = self._tail()
        where = stack_location.ask(self._process, self._output) if self._at.stage != "start" else []
        self._process.kill()
        self._process.wait()
        self._lost = True
        lines = [tail, f"no message for {self._limit:g} seconds", *where]
        return WorkerLost("hang", self._at.index, self._at.stage, "\n".join(lines))

    def _receive(self, limit: float) -> AwaitedReply:
        self._silence.end()
        while True:
            answer = self._answer_within(limit, LOOK_SECONDS)
            if answer is not None:
                return answer

    def _answer_within(self, limit: float, seconds: float) -> AwaitedReply | None:
        """The next answer; None if none came within `seconds`, or if another message came. Raises TimeUp, or as
        `receive` does after `limit` seconds of silence, whose start the caller has set."""
        left = limit - self._silence.seconds()
        until = self.until - time.monotonic()
        if until <= 0:
            self.drop()
            raise TimeUp
        longest = min(max(left, SHORTEST_LOOK_SECONDS), max(seconds, 0.0), LOOK_SECONDS, until)
        if self.connection.poll(longest if left > 0 else 0):
            return self.poll_message()
        if left <= 0:
            raise self.kill_hung()
        return None

    def drop(self) -> None:
        """End the process with what it is doing; the next request gets a new one."""
        self._process.kill()
        self._process.wait()
        self._lost = True

    def _as_lost(self) -> WorkerLost:
        self._lost = True
        ending, tail = how_it_ended(self._process.wait()), self._tail()
        if self._memory is not None:
            self._memory.close()
            if self._memory.exceeded:
                ending, tail = MEMORY_LIMIT, f"{tail.rstrip()}\n{self._memory.line}"
        return WorkerLost(ending, self._at.index, self._at.stage, tail, self._answered)

    def _tail(self) -> str:
        self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, self._output.tell() - 16384))
        return self._output.read().decode(errors="replace")

    def restart(self, *, again: bool = True) -> None:
        """Replace the process with a new one of the same assignment, and wait for it; `again` as in `wait_ready`."""
        self.close()
        self._start()
        self.wait_ready(again=again)

    def abandon(self) -> None:
        """End the process from another thread than the one that waits for it, which gets no new process."""
        self._abandoned = True
        self._process.kill()

    def close(self) -> None:
        """End the process. Safe to call twice."""
        self.connection.close()
        if self._memory is not None:
            self._memory.close()
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
        self._output.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _environment(assignment: Assignment) -> dict[str, str]:
    """The variables of a worker: those of this process, changed."""
    environment = dict(os.environ)
    root = str(Path(harness.__file__).resolve().parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), root]))
    if assignment.interpreter is not None:
        environment["PYTHONPATH"] = os.pathsep.join(assignment.path)
        environment["PYTHONNOUSERSITE"] = "1"
        environment.pop("VIRTUAL_ENV", None)
    # The temporary cache belongs to the parent; a killed worker could not remove it.
    environment[CACHE_VARIABLE] = str(cache_directory())
    for name, value in {**OWN_VARIABLES, **dict(assignment.environment)}.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    return environment
