"""The beginning of a command: from it on the seconds of a budget are counted."""

from __future__ import annotations

import time


class Began:
    """When the command of this process began (`time.monotonic`), for the first one that asks."""

    def __init__(self) -> None:
        self._at: float | None = None

    def mark(self) -> None:
        """Say that it begins now."""
        self._at = time.monotonic()

    def take(self) -> float:
        """When it began; now, for all but the first of several in one process."""
        at, self._at = self._at, None
        return time.monotonic() if at is None else at


BEGAN = Began()
