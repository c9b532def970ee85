"""An event is something that happened in a campaign. Reports are handlers of events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from harness.campaign.stats import Stats
from harness.repro.format import AnyRepro
from harness.subject.entry import Entry
from harness.subject.subject import Key
from harness.subject.summary import Summary


class CampaignStarted(msgspec.Struct, frozen=True):
    """Workers are ready: the target is loaded. `title` says in a line what will be run; `stats` how far the campaign is
    whenever it is called, from any thread."""

    title: str
    workers: int
    stats: Callable[[], Stats]


class CaseJudged(msgspec.Struct, frozen=True):
    """One more case has a result, whose type the subject defines. `done` is the number of cases so far, `done_here`
    those judged in the `elapsed` seconds since the start: an earlier part of the campaign judged the others.

    `noun` is the subject's word for a case; `drawn` is the seconds that drawing it took; `entry` is its line of the
    journal.
    """

    noun: str
    index: int
    result: Any
    done: int
    done_here: int
    elapsed: float
    drawn: float
    entry: Entry


class FindingFound(msgspec.Struct, frozen=True):
    """Something new was found; the case as drawn is already saved at `path`. `index` is that of the case, None if only
    a smaller variant of another finding's case showed it."""

    noun: str
    key: Key
    repro: AnyRepro
    path: Path
    index: int | None


class FindingKept(msgspec.Struct, frozen=True):
    """A finding has its final form, saved at `path`, minimal unless `repro.shrink` says otherwise. `count` cases have
    shown it so far; lines `about` it say what is known. `found_as` is another signature that shrank to this one:
    findings that shrink to the same key are merged."""

    noun: str
    key: Key
    repro: AnyRepro
    path: Path
    count: int
    about: tuple[str, ...] = ()
    found_as: Key | None = None


class Notice(msgspec.Struct, frozen=True):
    """Something a user should know that is not a finding, in one line."""

    text: str


class CampaignFinished(msgspec.Struct, frozen=True):
    """The end of a campaign, with its result."""

    summary: Summary


Event = CampaignStarted | CaseJudged | FindingFound | FindingKept | Notice | CampaignFinished
