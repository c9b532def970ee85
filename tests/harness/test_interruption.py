"""Ctrl-C and SIGTERM: which signals count, what they are called, and when they are held back."""

from __future__ import annotations

import contextlib
import signal

import pytest

from harness import interruption
from harness.interruption import Interruption


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, in a list."""
    at = [100.0]
    monkeypatch.setattr(interruption.time, "monotonic", lambda: at[0])
    return at


@pytest.mark.parametrize(
    ("number", "word", "status"), [(signal.SIGINT, "interrupted", 130), (signal.SIGTERM, "terminated", 143)]
)
def test_the_first_signal_names_it_and_others_change_nothing(
    clock: list[float], number: int, word: str, status: int
) -> None:
    one = Interruption()
    assert not one.came
    with pytest.raises(KeyboardInterrupt):
        one.take(number)
    clock[0] += 10
    one.take(signal.SIGINT)
    one.take(signal.SIGTERM)
    assert (one.came, one.at_once, one.word, one.status) == (True, False, word, status)


def test_while_it_is_held_back_the_second_one_counts(clock: list[float]) -> None:
    one = Interruption()
    with one.summed_up(), one.held():
        one.take(signal.SIGTERM)
        clock[0] += 0.1
        one.take(signal.SIGTERM)  # `timeout` sends it twice
        assert (one.came, one.at_once) == (True, False)
        clock[0] += 1
        with pytest.raises(KeyboardInterrupt):
            one.take(signal.SIGINT)
        assert (one.at_once, one.word) == (True, "terminated")
        clock[0] += 1
        one.take(signal.SIGINT)


def test_while_a_campaign_sums_up_both_end_what_is_done(clock: list[float]) -> None:
    one = Interruption()
    with one.summed_up():
        with pytest.raises(KeyboardInterrupt):
            one.take(signal.SIGINT)
        clock[0] += 1
        with pytest.raises(KeyboardInterrupt):
            one.take(signal.SIGINT)
    assert one.at_once


def test_what_is_short_is_done_first(clock: list[float]) -> None:
    one = Interruption()
    done = []
    with pytest.raises(KeyboardInterrupt), one.postponed():  # noqa: PT012 - where it is raised is what is tested
        with one.postponed():
            one.take(signal.SIGINT)
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]
    with one.postponed():  # it is raised once
        done.append("after it")


@pytest.mark.parametrize("summed_up", [True, False])
def test_a_second_one_does_not_wait_for_it(clock: list[float], summed_up: bool) -> None:
    """Also where nothing is summed up: a line may be printed into a pipe that is not read any more."""
    one = Interruption()
    summing = one.summed_up() if summed_up else contextlib.nullcontext()
    with summing, pytest.raises(KeyboardInterrupt), one.postponed():  # noqa: PT012
        one.take(signal.SIGINT)
        clock[0] += 1
        one.take(signal.SIGINT)
        raise AssertionError("the second one waits")
    assert one.at_once
    with one.postponed():  # the first one is not raised later
        pass
