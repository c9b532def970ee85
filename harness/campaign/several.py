"""Several targets in one campaign: each judges the same cases, so that their findings can be compared.

One target after the other. With a number of cases that is all; with a time budget the first target's share of it
decides how many cases there are, and the others judge as many, however long they take.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.campaign.campaign import Campaign
from harness.campaign.events import CampaignFinished, Event
from harness.campaign.settings import Settings
from harness.exit_status import worst
from harness.subject.registry import AnySubject
from harness.subject.summary import Summary


class SharedFinding(msgspec.Struct, frozen=True):
    """A signature and how many cases of each target failed with it; targets without it are not named."""

    signature: str
    domain: str
    cases: dict[str, int]
    repros: dict[str, str | None]


class Comparison(msgspec.Struct, frozen=True):
    """The campaigns of all targets, in order, and their findings side by side."""

    targets: list[Any]
    """A summary each."""
    findings: list[SharedFinding]
    exit_status: int


def run_several(
    subject_of: Callable[[str], AnySubject], settings: Settings, targets: Sequence[str], handle: Callable[[Event], None]
) -> Comparison:
    """Run a campaign on every target; `settings.out` gets a folder for each.

    Raises what Campaign and its `run` raise, for the first target that cannot be had.
    """
    outs = [settings.out / folder_name(target) for target in targets]
    started = any(any(out.glob("*.journal")) for out in outs)
    summaries: list[Summary] = []
    cases, seconds = settings.cases, settings.seconds
    if seconds is not None:
        seconds /= len(targets)
    for target, out in zip(targets, outs, strict=True):
        own = msgspec.structs.replace(settings, out=out, cases=cases, seconds=seconds, or_start=started)
        summary = _run(subject_of(target), own, handle)
        summaries.append(summary)
        cases, seconds = summary.count if cases is None else cases, None
    return Comparison(summaries, compare(summaries), worst(summary.exit_status for summary in summaries))


def _run(subject: AnySubject, settings: Settings, handle: Callable[[Event], None]) -> Summary:
    for event in Campaign(subject, settings).run():
        handle(event)
        if isinstance(event, CampaignFinished):
            return event.summary
    raise AssertionError("a campaign ends with CampaignFinished")


def compare(summaries: Sequence[Summary]) -> list[SharedFinding]:
    """Findings by signature and domain, those of the first target first."""
    found: dict[tuple[str, str], SharedFinding] = {}
    for summary in summaries:
        for finding in summary.compared():
            key = (finding.signature, finding.domain)
            shared = found.setdefault(key, SharedFinding(*key, {}, {}))
            shared.cases[summary.target] = finding.cases
            shared.repros[summary.target] = finding.repro
    return list(found.values())


def folder_name(target: str) -> Path:
    """A folder for a target's findings."""
    return Path(re.sub(r"[^\w.+-]+", "-", target).strip("-"))
