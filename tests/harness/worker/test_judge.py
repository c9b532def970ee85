"""What a worker does with a range of cases while its parent is busy."""

from __future__ import annotations

import socket
import threading
import time
from multiprocessing.connection import Connection

import pytest

from harness.worker.judge import Channel, Judge
from harness.worker.messages import CaseResult, JudgeRange, receive_reply
from tests.processes import wait_for

CASES = 6


class CountingJudge(Judge):
    """Keeps the numbers of the cases that it began."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self.begun: list[int] = []

    def judge(self, case: bytes, how: bytes) -> bytes:
        raise NotImplementedError

    def judge_drawn(self, recipe: bytes, index: int) -> tuple[bytes, bytes | None, float]:
        self.begun.append(index)
        self.channel.at("a stage")
        return b"result", None, 0.0


class Worker:
    """A judge that works on a range in a thread, and its parent's side of the connection."""

    def __init__(self) -> None:
        mine, theirs = socket.socketpair()
        self.parent, self._child = Connection(mine.detach()), Connection(theirs.detach())
        self.judge = CountingJudge(Channel(self._child))
        self.thread = threading.Thread(target=self._work)

    def _work(self) -> None:
        self.judge.range(JudgeRange(b"", 0, CASES, float("inf")))

    def close(self) -> None:
        self.parent.close()
        self.thread.join()
        self._child.close()


def test_no_case_begins_before_the_parent_has_read_the_result_of_the_one_before() -> None:
    """So a parent that is killed loses no more of a worker than the case that it is judging."""
    worker = Worker()
    worker.thread.start()
    for index in range(CASES):
        wait_for(lambda index=index: len(worker.judge.begun) > index)
        time.sleep(0.05)
        assert worker.judge.begun == list(range(index + 1))
        while not isinstance(receive_reply(worker.parent), CaseResult):
            pass
    worker.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_whose_parent_is_gone_does_not_wait() -> None:
    worker = Worker()
    worker.thread.start()
    wait_for(lambda: len(worker.judge.begun) == 1)
    time.sleep(0.05)
    worker.parent.close()
    worker.thread.join(10.0)
    assert not worker.thread.is_alive()
    worker.close()
