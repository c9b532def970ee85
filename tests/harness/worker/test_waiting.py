"""Waiting: connections that can be read, those that are closed among them, and no longer than asked for."""

from __future__ import annotations

import time
from multiprocessing import Pipe

from harness.worker.waiting import Readiness


def test_what_can_be_read_is_ready() -> None:
    (one, to_one), (other, to_other) = Pipe(duplex=False), Pipe(duplex=False)
    readiness = Readiness()
    assert list(readiness.of([one, other])) == []
    to_other.send_bytes(b"x")
    assert list(readiness.of([one, other], 60.0)) == [other]
    assert list(readiness.of([one])) == []
    to_one.close()
    assert list(readiness.of([one], 60.0)) == [one], "the other side is gone"
    for connection in (one, other, to_other):
        connection.close()


def test_a_new_connection_with_the_number_of_an_old_one_is_watched() -> None:
    readiness = Readiness()
    for _ in range(3):
        one, to_one = Pipe(duplex=False)
        assert list(readiness.of([one])) == []
        to_one.send_bytes(b"x")
        assert list(readiness.of([one])) == [one]
        one.close()
        to_one.close()


def test_less_than_no_time_is_none() -> None:
    one, to_one = Pipe(duplex=False)
    start = time.monotonic()
    assert list(Readiness().of([one], -1.0)) == []
    assert time.monotonic() - start < 60
    one.close()
    to_one.close()
