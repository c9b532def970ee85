"""Several targets in one campaign: each judges the same cases, so that their findings can be compared.

Targets run one after the other. With a time budget, the first target gets its share of the time, which decides the
number of cases; the others judge the same number, however long they take.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.campaign.campaign import Campaign
from harness.campaign.earlier import move_aside, moved
from harness.campaign.events import CampaignFinished, Event, Notice
from harness.campaign.folder import CampaignFolder
from harness.campaign.following import follow
from harness.campaign.settings import Settings
from harness.exit_status import Interrupted, worst
from harness.interruption import INTERRUPTION
from harness.refusal import Refusal
from harness.subject.registry import AnySubject, subject_classes
from harness.subject.summary import Summary


class SharedFinding(msgspec.Struct, frozen=True):
    """A signature and how many cases of each target failed with it; targets without it are not named."""

    signature: str
    domain: str
    cases: dict[str, int]
    repros: dict[str, str | None]


class TargetComparison(msgspec.Struct, frozen=True):
    """The campaigns of all targets, in order, and a comparison of their findings."""

    names: list[str]
    """Targets as they were asked for: two may run the same scheduler."""
    targets: list[Any]
    """One summary for each target."""
    findings: list[SharedFinding]
    exit_status: int
    ended_early: str | None = None
    """Why the last of the targets, and those after it, were not completed."""


class TargetsInterrupted(Interrupted):
    """With the comparison of what was judged; None if nothing was."""

    def __init__(self, message: str, comparison: TargetComparison | None) -> None:
        super().__init__(message)
        self.comparison = comparison


def run_several(
    subject_of: Callable[[str], AnySubject],
    settings: Settings,
    targets: Sequence[str],
    handle: Callable[[Event], None],
    progress: Callable[[str], None] | None = None,
) -> TargetComparison:
    """Run a campaign on every target; `settings.out` gets a folder for each.

    Raises Refusal if two targets would get the same folder, NotSaved if what an earlier run left cannot be moved aside,
    the exceptions of Campaign and its `run` for the first target that fails, and TargetsInterrupted, which says what is
    left. `progress`: see Campaign.
    """
    outs = _folders(settings.out, targets)
    if not settings.resume:
        aside = move_aside(settings.out, [one for one in subject_classes() if one.name not in settings.together])
        if aside is not None:
            handle(Notice(moved(settings.out, aside)))
    if settings.options is not None:
        CampaignFolder(settings.out).write(settings.options)
    started = any(any(out.glob("*.journal")) for out in outs)
    summaries: list[Summary] = []
    cases, seconds = settings.cases, settings.seconds
    if seconds is not None:
        seconds /= len(targets)
    for number, (target, out) in enumerate(zip(targets, outs, strict=True)):
        more = {"or_start": started or settings.or_start, "options": None}
        own = msgspec.structs.replace(settings, out=out, cases=cases, seconds=seconds, **more)
        campaign = None
        try:
            campaign = Campaign(subject_of(target), own, progress)
            follow(campaign, keeping(handle, summaries))
        except KeyboardInterrupt:
            left = "" if campaign is None else campaign.left
            done = targets[:number]
            if done or left:
                left = f"on {target} {left or 'nothing was judged'}; {settings.how_to_resume}"
            names = list(targets[: len(summaries)])
            comparison = TargetComparison(
                names, summaries, compare(names, summaries), INTERRUPTION.status, INTERRUPTION.word
            )
            message = f"{', '.join(done)} done, {left}" if done else left
            raise TargetsInterrupted(message, comparison if summaries else None) from None
        summary = summaries[-1]
        if seconds != 0:  # else no target judges more
            cases, seconds = summary.count if cases is None else cases, None
    names = list(targets)
    status = worst(summary.exit_status for summary in summaries)
    return TargetComparison(names, summaries, compare(names, summaries), status)


def keeping(handle: Callable[[Event], None], summaries: list[Summary]) -> Callable[[Event], None]:
    """The same handler, which also keeps summaries."""

    def keep(event: Event) -> None:
        if isinstance(event, CampaignFinished):
            summaries.append(event.summary)
        handle(event)

    return keep


def compare(names: Sequence[str], summaries: Sequence[Summary]) -> list[SharedFinding]:
    """Findings by signature and domain, those of the first target first."""
    found: dict[tuple[str, str], SharedFinding] = {}
    for name, summary in zip(names, summaries, strict=True):
        for finding in summary.compared():
            key = (finding.signature, finding.domain)
            shared = found.setdefault(key, SharedFinding(*key, {}, {}))
            shared.cases[name] = finding.cases
            shared.repros[name] = finding.repro
    return list(found.values())


def _folders(out: Path, targets: Sequence[str]) -> list[Path]:
    """A folder for each target. Raises Refusal if two would get the same."""
    folders: dict[Path, str] = {}
    for target in targets:
        other = folders.setdefault(out / folder_name(target), target)
        if other != target:
            raise Refusal(
                f"{other!r} and {target!r} would both write to '{out / folder_name(target)}': "
                "run them one by one, each with its own --out"
            )
    return list(folders)


def folder_name(target: str) -> Path:
    """A folder for a target's findings."""
    return Path(re.sub(r"[^\w.+-]+", "-", target).strip("-"))
