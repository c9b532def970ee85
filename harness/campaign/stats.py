"""Statistics say how far a campaign is, for machines that watch it: `stats.json`, rewritten every few seconds.

They are written from a thread of their own, since shrinking one finding may take minutes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.files import replace_file, require_regular
from harness.text import counted

STATS_SECONDS = 5.0
"""How often statistics are written."""
PROGRESS_SECONDS = 30.0
"""How often a line reports the progress where no terminal shows it."""

Phase = Literal["loading", "judging", "sorting out", "ended"]


class FoundSoFar(msgspec.Struct, frozen=True):
    """A finding as it is known by now: its signature and known issue, the number of the case that represents it, how
    many cases showed it, and its file."""

    signature: str
    issue: str | None
    first: int
    count: int
    file: str | None


class RarestRegime(msgspec.Struct, frozen=True):
    """The regime that fewest cases were in, of those that some were: its name, how many cases that is, and how many
    seconds the campaign needs for one at its present rate (None: not known)."""

    name: str
    cases: int
    seconds_for_one: float | None


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """How far one campaign is (docs/json.md)."""

    subject: str
    noun: str
    target: str
    seed: int
    shard: str | None
    phase: Phase
    workers: int
    started: str
    updated: str
    seconds: float
    limit_cases: int | None
    limit_seconds: float | None
    judged: int
    in_this_part: int
    per_second: float
    skipped: int
    violations: int
    regimes_reached: int
    regimes: int
    findings: list[FoundSoFar]
    harness_failures: int
    workers_lost: int
    ended_early: str | None
    exit_status: int | None
    # What versions before these fields wrote is read as well.
    rarest: RarestRegime | None = None
    unreached_seconds: float | None = None
    worker_seconds: dict[str, float] = {}

    @property
    def line(self) -> str:
        """The progress in a line."""
        rate = f", {self.per_second:.1f} a second" if self.phase == "judging" else ""
        what = f"{counted(self.judged, self.noun)}{rate}, {counted(len(self.findings), 'finding')}"
        return f"{self.phase}: {what}, after {self.seconds:.0f} s"


class StatsFile(msgspec.Struct):
    """What `stats.json` holds: a row for each campaign of a run, by subject."""

    harness_stats: int = 1
    campaigns: dict[str, Any] = {}


NEVER_SEEN = 3.0
"""What came in none of N cases comes, with a certainty of 95 %, in fewer than this many of N."""


def rarest_regime(reached: Mapping[str, int], cases: int, per_second: float) -> RarestRegime | None:
    """The rarest of the regimes that were reached, by how many cases; of equal ones the first by name. `cases` are all
    that were judged."""
    name = min(reached, key=lambda one: (reached[one], one), default=None)
    if name is None:
        return None
    seconds = round(cases / reached[name] / per_second, 1) if per_second > 0 else None
    return RarestRegime(name, reached[name], seconds)


def unreached_seconds(cases: int, per_second: float) -> float | None:
    """A regime that was never reached needs, with a certainty of 95 %, more than these seconds for one case; None:
    nothing can be said."""
    return round(cases / NEVER_SEEN / per_second, 1) if cases and per_second > 0 else None


def now() -> str:
    """The time of the clock."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Watch:
    """Writes statistics to a file, and reports them to `progress`, until it is closed. `others` are subjects whose rows
    in the file stay. What cannot be written is reported once."""

    def __init__(
        self,
        path: Path,
        take: Callable[[], Stats],
        others: Sequence[str],
        progress: Callable[[str], None] | None,
        notice: Callable[[str], None],
    ) -> None:
        self._path, self._take, self._progress, self._notice = path, take, progress, notice
        self._others = _rows(path, others)
        self._over = threading.Event()
        self._failed = False
        self._thread = threading.Thread(target=self._run, name="statistics", daemon=True)

    def start(self) -> None:
        self._write()
        self._thread.start()

    def _run(self) -> None:
        due = time.monotonic() + PROGRESS_SECONDS
        while not self._over.wait(STATS_SECONDS):
            self._write()
            if self._progress is not None and time.monotonic() >= due:
                due = time.monotonic() + PROGRESS_SECONDS
                self._progress(self._take().line)

    def _write(self) -> None:
        stats = self._take()
        text = msgspec.json.encode(StatsFile(campaigns={**self._others, stats.subject: stats}))
        try:
            replace_file(self._path, msgspec.json.format(text) + b"\n")
        except OSError as error:
            if not self._failed:
                self._notice(f"{self._path} cannot be written: {error.strerror}")
            self._failed = True

    def close(self) -> None:
        """Write what is known at the end."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
            self._write()


def _rows(path: Path, subjects: Sequence[str]) -> dict[str, Any]:
    """Rows of other campaigns of the same run; none where the file is damaged, as it only repeats what they wrote."""
    try:
        require_regular(path)
        rows = msgspec.json.decode(path.read_bytes(), type=StatsFile).campaigns
    except (OSError, msgspec.DecodeError, RecursionError):
        return {}
    return {name: row for name, row in rows.items() if name in subjects}
