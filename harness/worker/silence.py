"""Silence is time in which a process could have answered and did not: what counts towards a hang, and nothing else.

A process that waits for a processor, or was stopped with Ctrl-Z, is no hang, however long it takes by the clock.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

LOOK_SECONDS = 1.0
"""How often one looks at a worker that says nothing, unless something else takes longer."""

SHORTEST_LOOK_SECONDS = 0.1
"""Looking more often would cost and tell nothing."""


def seconds_run(process: int) -> float:
    """How long a process had a processor. Of its main thread alone, which judges and launches; 0 where the system does
    not say."""
    return _scheduled(process, 0)


def seconds_in_line(process: int) -> float:
    """How long a process has been ready to run while others had the processors. Of its main thread alone, which judges
    and launches: what that one waits for may stand in line uncounted. 0 where the system does not say."""
    return _scheduled(process, 1)


def _scheduled(process: int, column: int) -> float:
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[column]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def is_stopped(process: int) -> bool:
    """Whether a process is stopped, by a signal (as Ctrl-Z sends) or a debugger; no where the system does not say."""
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
    """For how long a process could have answered, and did not: what counts towards a hang.

    Not counted is time in which it stood in line for a processor or was stopped. Nor is time in which nobody looked,
    because the campaign was stopped too or waited for another worker: nobody knows what happened then. So of the time
    between two looks no more counts than LOOK_SECONDS, or what the process ran if that is more. That errs by a second
    for each stop, and may find a hang later; it finds it however seldom one looks.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self.end()

    def end(self) -> None:
        """The process was heard, or asked something. Cheap: it happens thousands of times a second."""
        self._seconds = 0.0
        self._touched = time.monotonic()
        self._last: _Look | None = None

    def seconds(self) -> float:
        """Look, and tell how much counts; from the first look after an end on."""
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
