"""A memory limit is the resident size that a worker may have.

One that takes more is ended by its parent, so that a target which allocates without end costs its own process, and not
the machine."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

LOOK_SECONDS = 0.05
"""The interval at which a worker is looked at: host code that touches new memory as fast as it can gets a few hundred
megabytes further."""

MEMORY_LIMIT = "memory-limit"
"""How a worker ended that took more."""

_UNITS = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def resident_bytes(process: int) -> int:
    """The resident size of a process, shared pages included; 0 if the system does not say."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def in_words(size: int) -> str:
    """A number of bytes for people, such as `1.5 GB`, of 10**9 bytes each."""
    for unit, many in _UNITS:
        if size >= many:
            return f"{size / many:.3g} {unit}"
    return f"{size} bytes"


class MemoryWatch:
    """Looks at a process from a thread of its own, until it is closed, and calls `end` once if the process takes more
    than `limit` bytes. A process that frees in time what it took is not seen."""

    def __init__(self, process: int, limit: int, end: Callable[[], None]) -> None:
        self.limit, self.most = limit, 0
        self._process, self._end = process, end
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory of a worker", daemon=True)
        self._thread.start()

    @property
    def exceeded(self) -> bool:
        """Whether the process took more, and was ended for it."""
        return self.most > self.limit

    @property
    def line(self) -> str:
        """What was seen of a process that took more."""
        return f"it took {in_words(self.most)} of memory, more than the {in_words(self.limit)} of --memory-limit"

    def _run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self.most = max(self.most, resident_bytes(self._process))
            if self.exceeded:
                self._end()
                return

    def close(self) -> None:
        """Look no more. Safe to call twice."""
        self._over.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
