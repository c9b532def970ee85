"""An event is something that happened in a campaign. Reports are handlers of events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from harness.repro.format import AnyRepro
from harness.subject.subject import Key
from harness.subject.summary import Summary


class CampaignStarted(msgspec.Struct, frozen=True):
    """Workers are up: the target is loaded. `title` says what is going to happen, in a line."""

    title: str
    workers: int


class CaseJudged(msgspec.Struct, frozen=True):
    """One more case has a result, which is the subject's; `done` of them so far, `done_here` of them in the `elapsed`
    seconds since the start: an earlier part of the campaign judged the others.

    `noun` is what the subject calls a case; `drawn` is the seconds that drawing it took.
    """

    noun: str
    index: int
    result: Any
    done: int
    done_here: int
    elapsed: float
    drawn: float


class FindingFound(msgspec.Struct, frozen=True):
    """Something new was found; the case as drawn is already saved at `path`. `index` is that of the case, None if only
    a smaller variant of another finding's case showed it."""

    noun: str
    key: Key
    repro: AnyRepro
    path: Path
    index: int | None


class FindingKept(msgspec.Struct, frozen=True):
    """A finding has its final form, saved at `path`, minimal unless `repro.shrink` says otherwise. `count` cases are
    like it so far; lines `about` it say what is known. It was `found_as` another, if it shrank to this one: findings
    that come down to one case are one."""

    noun: str
    key: Key
    repro: AnyRepro
    path: Path
    count: int
    about: tuple[str, ...] = ()
    found_as: Key | None = None


class Notice(msgspec.Struct, frozen=True):
    """Something a user should know that is no finding, in one line."""

    text: str


class CampaignFinished(msgspec.Struct, frozen=True):
    """The end; `summary.exit_status` is the answer."""

    summary: Summary


Event = CampaignStarted | CaseJudged | FindingFound | FindingKept | Notice | CampaignFinished
