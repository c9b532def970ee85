"""The times of a campaign: when its phases began, and where the seconds of its workers went."""

from __future__ import annotations

import time


class Times:
    """Of a campaign that begins to load its target now. May be read from another thread than the one that says what
    happens."""

    def __init__(self) -> None:
        self._made = time.monotonic()
        self._loaded: float | None = None
        self._judging: tuple[float, float | None] | None = None
        self._end: float | None = None
        self._spent: dict[str, float] = {}

    def loaded(self) -> float:
        """The target is loaded: since when (`time.monotonic`)."""
        self._loaded = time.monotonic()
        return self._loaded

    def judging_begins(self) -> None:
        self._judging = time.monotonic(), None

    def judging_ends(self) -> None:
        assert self._judging is not None
        self._judging = self._judging[0], time.monotonic()

    def end(self) -> None:
        """Findings are sorted out, or the campaign ended early."""
        self._end = time.monotonic()

    def add(self, what: str, seconds: float) -> None:
        """A worker did something for so long."""
        self._spent[what] = self._spent.get(what, 0.0) + seconds

    @property
    def judging(self) -> float:
        """How many seconds cases have been judged."""
        if self._judging is None:
            return 0.0
        began, ended = self._judging
        return (time.monotonic() if ended is None else ended) - began

    def of_workers(self, workers: int) -> dict[str, float]:
        """The seconds of so many workers: until they had loaded their target, for cases, and while one of them sorted
        findings out. `other` is what is left while cases were judged: waiting, starting again after a loss, looking
        into findings."""
        spent = {name: seconds for name, seconds in dict(self._spent).items() if seconds}
        now = time.monotonic()
        found = {"load": ((now if self._loaded is None else self._loaded) - self._made) * workers, **spent}
        if self._judging is not None:
            found["other"] = max(0.0, self.judging * workers - sum(spent.values()))
            if self._judging[1] is not None:
                found["sort out"] = (now if self._end is None else self._end) - self._judging[1]
        return {name: round(seconds, 1) for name, seconds in found.items()}
