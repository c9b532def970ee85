"""Settings are what a campaign is asked to do, independent of its subject."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

from harness.campaign.expectations import Expectations
from harness.campaign.shard import Shard
from harness.text import counted


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Either `cases` or `seconds` ends a campaign; in these seconds findings are sorted out and shrunk, too. They are
    counted from `began` (`time.monotonic`), or from when the target is loaded if that is None. `resume`: continue the
    campaign whose journal is in the folder `out`."""

    out: Path
    cases: int | None = None
    seconds: float | None = None
    began: float | None = None
    workers: int = 1
    memory: int | None = None
    """How many bytes each worker may take; None: any number."""
    fail_fast: bool = False
    shrink: bool = True
    shrink_executions: int | None = None
    """Maximum number for each finding; None: the subject's usual number."""
    resume: bool = False
    or_start: bool = False
    """If a campaign to resume has no journal, start it: it is one of several that were interrupted before it began."""
    together: tuple[str, ...] = ()
    """The subjects whose files in the folder are of this run, too, of another campaign of it."""

    shard: Shard | None = None
    """The part of the campaign that this is; `cases` is the number of the whole campaign."""
    options: dict[str, str | bool] | None = None
    """The options of the command, to be kept in the folder: with them its name is enough to resume. None: they are kept
    elsewhere."""
    expectations: Expectations | None = None
    """What was known before; None: each finding counts."""

    def limit(self, noun: str) -> str:
        """What ends the campaign, in words."""
        if self.seconds == 0:
            return f"no more {noun}s"
        whole = f"{self.seconds:g} s" if self.cases is None else counted(self.cases, noun)
        return whole if self.shard is None else f"shard {self.shard} of {whole}"

    @property
    def how_to_resume(self) -> str:
        """How to resume the campaign after an interrupt; a time budget starts again."""
        how = f"resume with the same command{'' if self.resume else ' and --resume'}"
        if self.options is not None:
            how = f"resume with harness run --resume {shlex.quote(str(self.out))}"
        if self.cases is not None:
            return how
        return f"{how}: for another {self.seconds:g} s, or with a new --budget, or --cases N in its place"


def useful_workers(settings: Settings, block: int) -> int:
    """The number of workers that get a block of cases. Starting one takes seconds of processor time, so no others are
    started."""
    if settings.seconds == 0:
        return 1
    if settings.cases is None:
        return settings.workers
    blocks = -(-settings.cases // block)
    if settings.shard is not None:
        blocks = settings.shard.count(blocks)
    return min(settings.workers, max(1, blocks))
