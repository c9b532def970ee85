"""Settings are what a campaign is asked to do, whatever its subject is."""

from __future__ import annotations

from pathlib import Path

import msgspec

from harness.text import counted


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One of `cases` and `seconds` ends a campaign; seconds are counted from when the target is loaded, and findings
    are shrunk after them. `resume` the campaign whose journal is in the folder `out`."""

    out: Path
    cases: int | None = None
    seconds: float | None = None
    workers: int = 1
    fail_fast: bool = False
    shrink: bool = True
    shrink_executions: int | None = None
    """At most so many for each finding; None: as many as is usual for the subject."""
    resume: bool = False
    or_start: bool = False
    """Start a campaign that is to be resumed if there is no journal of it: one of several that an interrupt cut off."""

    def limit(self, noun: str) -> str:
        """What ends the campaign, in words."""
        return f"{self.seconds:g} s" if self.cases is None else counted(self.cases, noun)

    @property
    def how_to_resume(self) -> str:
        """What to type to resume the campaign, once it was interrupted; a time begins anew."""
        how = f"resume with the same command{'' if self.resume else ' and --resume'}"
        if self.cases is not None:
            return how
        return f"{how}: for another {self.seconds:g} s, or with a new --budget, or --cases N in its place"


def useful_workers(settings: Settings, block: int) -> int:
    """Workers that get a block of cases: starting one takes seconds of processor time, so no others are started."""
    if settings.cases is None:
        return settings.workers
    return min(settings.workers, max(1, -(-settings.cases // block)))
