"""A judge is the part of a subject that lives in a worker: it judges cases, and draws those of a range.

It is made once, from the text of an assignment, and may then load what it needs.
"""

from __future__ import annotations

import abc
import fcntl
import sys
import termios
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from harness.worker.messages import At, CaseResult, Drawn, JudgeRange, send
from harness.worker.waiting import Readiness

LOOK_AGAIN_SECONDS = 50e-6
"""The parent wakes up in about that time; a case takes longer than a millisecond."""


class Channel:
    """Sends the messages of a judge while it works. `index` is its current case, -1 if that has no number."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._readiness = Readiness()
        self.index = -1

    def at(self, stage: str) -> None:
        """Report the next stage before it begins."""
        send(self._connection, At(self.index, stage))

    def drawn(self, case: bytes) -> None:
        """Send a case that cannot be drawn again."""
        send(self._connection, Drawn(case))

    @property
    def stopped(self) -> bool:
        """Whether the parent has asked for an end of the range: while that lasts it sends nothing else."""
        return bool(self._readiness.of((self._connection,)))

    def await_reader(self) -> None:
        """Wait until the parent has read all messages: what it has not read when it is killed is judged again. If the
        parent is gone there is nothing to wait for."""
        while _unread(self._connection.fileno()):
            time.sleep(LOOK_AGAIN_SECONDS)

    def result(self, result: bytes, failed: bytes | None, drawn: float) -> None:
        """Send the result of a case of a range, and the case if it failed."""
        send(self._connection, CaseResult(self.index, result, failed, drawn))


class Judge(abc.ABC):
    """Judges the cases of one subject."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    @abc.abstractmethod
    def judge(self, case: bytes, how: bytes) -> bytes:
        """The result of one case. Raises InvalidCase, and Refusal if it cannot be judged here."""

    @abc.abstractmethod
    def judge_drawn(self, recipe: bytes, index: int) -> tuple[bytes, bytes | None, float]:
        """Draw and judge a case: its result, the case itself if it failed, and the seconds that drawing took."""

    def range(self, request: JudgeRange) -> int:
        """Judge a range and send each result. Returns the index of the first case that was not judged."""
        for index in range(request.start, request.stop):
            self.channel.await_reader()
            if time.monotonic() >= request.deadline or self.channel.stopped:
                return index
            self.channel.index = index
            self.channel.result(*self.judge_drawn(request.recipe, index))
        return request.stop

    def has_lost_its_device(self, error: Exception) -> bool:
        """Whether an exception that no verdict was made of came because the device is gone."""
        return False

    def ask(self, question: str, content: bytes) -> bytes:
        """Answer a question of the subject."""
        raise NotImplementedError(f"no judge answers {question!r}")


def _unread(socket: int) -> int:
    """How many bytes the other side of a socket has not read yet, with what the kernel keeps with them."""
    return int.from_bytes(fcntl.ioctl(socket, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


MakeJudge = Callable[[str, Channel], Judge]
"""Makes a judge from the text of an assignment. Raises Refusal if something that it names is not available."""
