"""A time limit is how long a campaign may take, until its summary is there: judging, sorting findings out and shrinking
them share it. The more was found, the earlier judging ends."""

from __future__ import annotations

import time

LEAST_SECONDS = 5.0
"""After its target is loaded, a campaign has at least these seconds, or its whole limit if that is less."""
LEAST_SHARE = 0.25
"""The same, as a share of the limit: a target that loads too long leaves nothing else."""
MOST_SORTING = 0.6
"""Maximum share of the time after loading that is kept for sorting findings out."""
MOST_SORTING_SECONDS = 15.0
"""The same for each finding: kernel cases take seconds to shrink, step sequences up to a minute."""
MOST_ENDING_SECONDS = 3.0
"""Maximum number of seconds that are kept for ending workers and writing what is left."""
ENDING_SHARE = 0.03
PATIENCE_SHARE = 0.05
MOST_PATIENCE_SECONDS = 5.0
"""How long cases that are being judged when judging ends may take, as a share of the time after loading, and at
most."""

UNLIMITED = float("inf")


class TimeLimit:
    """Of a campaign whose target is loaded now; all times are those of `time.monotonic`.

    `patience` is how many seconds cases may take that are being judged when judging ends.

    `seconds` is None for a campaign without a limit, and 0 for one that judges nothing and takes as long as it likes.
    They are counted from `began`, the start of the command, or from now if that is None.
    """

    def __init__(self, seconds: float | None, began: float | None = None, *, sorts: bool = True) -> None:
        now = time.monotonic()
        self._sorts = sorts
        self._judges_nothing = seconds == 0
        if not seconds:
            self.end = UNLIMITED
            self._available = self._ending = 0.0
            self.patience = UNLIMITED
            return
        least = max(LEAST_SHARE * seconds, min(LEAST_SECONDS, seconds))
        self.end = max(now + least, (now if began is None else began) + seconds)
        self._available = self.end - now
        self._ending = min(MOST_ENDING_SECONDS, ENDING_SHARE * self._available)
        self.patience = min(MOST_PATIENCE_SECONDS, PATIENCE_SHARE * self._available)

    def judging_until(self, findings: int) -> float:
        """When judging ends, with that many findings."""
        if self._judges_nothing or self.end == UNLIMITED:
            return 0.0 if self._judges_nothing else UNLIMITED
        kept = 0.0
        if self._sorts:
            kept = min(self._available * MOST_SORTING * findings / (findings + 2), MOST_SORTING_SECONDS * findings)
        return self.end - self._ending - max(kept, self.patience)

    @property
    def sorting_until(self) -> float:
        """When sorting findings out ends."""
        return self.end - self._ending
