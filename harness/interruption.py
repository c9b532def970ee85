"""An interruption is Ctrl-C, or SIGTERM, which `timeout` and supervisors send: its name, and what it breaks off.

Usually it is a KeyboardInterrupt wherever the command is, and further signals change nothing. A campaign holds it back
while it judges, so that no case is torn, and looks whether it came; a second one then ends it at once.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator

from harness.exit_status import INTERRUPTED, TERMINATED

SAME_SECONDS = 0.5
"""Signals within this time are one: `timeout` sends SIGTERM to its command, and then to the whole group of it."""


class Interruption:
    """The signals of this process. `word` and `status` are those of the first one."""

    def __init__(self) -> None:
        self.word, self.status = "interrupted", INTERRUPTED
        self._count = 0
        self._first = 0.0
        self._most = 1
        self._held = False
        self._postponed = 0
        self._due = False

    @property
    def came(self) -> bool:
        """Whether there was one."""
        return self._count > 0

    @property
    def at_once(self) -> bool:
        """Whether a second one asked for an end without a summary."""
        return self._count > 1

    def take(self, number: int) -> None:
        """Handle a signal. Raises KeyboardInterrupt, unless it is held back or changes nothing."""
        now = time.monotonic()
        # While a first one is postponed a second one counts: what is short may wait for a reader that has stopped.
        most = 2 if self._due else self._most
        if self._count >= most or (self.came and now - self._first < SAME_SECONDS):
            return
        self._count += 1
        if self._count == 1:
            self._first = now
            if number == signal.SIGTERM:
                self.word, self.status = "terminated", TERMINATED
            if self._held:
                return
            if self._postponed:
                self._due = True
                return
        raise KeyboardInterrupt

    @contextlib.contextmanager
    def summed_up(self) -> Iterator[None]:
        """While the first one leads to a summary, a second one is a KeyboardInterrupt too."""
        self._most = 2
        try:
            yield
        finally:
            self._most = 1

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the first one back: `came` says whether there was one."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    @contextlib.contextmanager
    def postponed(self) -> Iterator[None]:
        """Raise the KeyboardInterrupt of a first one at the end of the block, so that what is short is not torn; that
        of a second one at once. An exception of the block comes first. For the main thread, which handles signals."""
        self._postponed += 1
        try:
            yield
        finally:
            self._postponed -= 1
            due = self._due and not self._postponed
            if due:
                self._due = False
        if due:
            raise KeyboardInterrupt


INTERRUPTION = Interruption()
"""Signals belong to the process, and so does this."""
