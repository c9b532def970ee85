"""The child's side of a worker: it ends quietly when its parent is gone."""

from __future__ import annotations

import socket
from multiprocessing.connection import Connection

import pytest

from harness.worker.child import serve
from harness.worker.judge import Channel, Judge
from harness.worker.messages import Ready, receive_reply


class NoJudge(Judge):
    def judge(self, case: bytes, how: bytes) -> bytes:
        raise AssertionError("nothing is asked")

    def judge_drawn(self, recipe: bytes, index: int) -> tuple[bytes, bytes | None, float]:
        raise AssertionError("nothing is asked")


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\x09half"], ids=["nothing", "half a size", "half a message"])
def test_a_parent_that_is_gone_ends_it(sent: bytes) -> None:
    """Between two messages, or in the middle of one."""
    mine, theirs = socket.socketpair()
    mine.sendall(sent)
    mine.shutdown(socket.SHUT_WR)
    with Connection(theirs.detach()) as connection, Connection(mine.detach()) as parent:
        serve(connection, lambda assignment, channel: NoJudge(channel), "")
        assert receive_reply(parent) == Ready()


def test_a_connection_that_was_reset_ends_it() -> None:
    mine, theirs = socket.socketpair()
    with Connection(theirs.detach()) as connection:

        def make(assignment: str, channel: Channel) -> Judge:
            return NoJudge(channel)

        class Reset:
            """A connection whose other side was killed with data unread."""

            def send_bytes(self, text: bytes) -> None:
                connection.send_bytes(text)

            def recv_bytes(self) -> bytes:
                raise ConnectionResetError("reset by peer")

        serve(Reset(), make, "")  # type: ignore[arg-type]
    with Connection(mine.detach()) as parent:
        assert receive_reply(parent) == Ready()
