"""Silence is time in which a process could have answered and did not. Only silence counts towards a hang.

A process that waits for a processor, or was stopped with Ctrl-Z, does not hang, however long it takes by the clock.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

LOOK_SECONDS = 1.0
"""The interval at which a silent worker is looked at, unless something else takes longer."""

SHORTEST_LOOK_SECONDS = 0.1
"""Looking more often would cost time and show nothing new."""


def seconds_run(process: int) -> float:
    """How long a process had a processor. Only its main thread counts, which judges and launches. 0 if the system does
    not say."""
    return _scheduled(process, 0)


def seconds_in_line(process: int) -> float:
    """How long a process has been ready to run while others had the processors. Only its main thread counts, which
    judges and launches; waiting of threads that it waits for is not included. 0 if the system does not say."""
    return _scheduled(process, 1)


def _scheduled(process: int, column: int) -> float:
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[column]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def is_stopped(process: int) -> bool:
    """Whether a process is stopped, by a signal (such as that of Ctrl-Z) or a debugger. False if the system does not
    say."""
    try:
        status = Path(f"/proc/{process}/stat").read_bytes()
    except OSError:
        return False
    return status.rpartition(b")")[2].split()[:1] in ([b"T"], [b"t"])


class _Look(NamedTuple):
    """What was seen of a process at one moment, in seconds."""

    at: float
    ran: float
    in_line: float
    stopped: bool


class Silence:
    """Measures how long a process could have answered, and did not: the time that counts towards a hang.

    Time in which it waited for a processor or was stopped does not count. Neither does time in which the parent did not
    look, because the campaign was stopped too or waited for another worker: what happened then is unknown. So the time
    between two looks counts up to LOOK_SECONDS, or up to the time that the process ran if that is more. That errs by a
    second for each stop, and may find a hang later; but it finds a hang at any rate of looking.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self.end()

    def end(self) -> None:
        """End the silence: the process sent a message, or got one. Cheap: it happens thousands of times a second."""
        self._seconds = 0.0
        self._touched = time.monotonic()
        self._last: _Look | None = None

    def seconds(self) -> float:
        """Look, and return the silence in seconds, counted from the first look after an end on."""
        now = time.monotonic()
        if now - self._touched < SHORTEST_LOOK_SECONDS:
            return self._seconds
        number = self._process
        look = _Look(now, seconds_run(number), seconds_in_line(number), is_stopped(number))
        last, self._last, self._touched = self._last, look, now
        if last is not None:
            free = look.at - last.at - (look.in_line - last.in_line)
            most = 0.0 if look.stopped or last.stopped else LOOK_SECONDS
            # Waiting is counted when it is over, so `free` may be negative: it takes back what earlier looks counted.
            self._seconds = max(0.0, self._seconds + min(free, max(most, look.ran - last.ran)))
        return self._seconds
