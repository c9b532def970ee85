"""An event is something that happened in a campaign. Reports know events and nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec

from harness import __version__
from harness.check.outcome import Outcome, Signature
from harness.engines.random import Recipe
from harness.repro import Repro


class CampaignStarted(msgspec.Struct, frozen=True):
    """Workers are up: the target is loaded."""

    target: str
    executor: str
    recipe: Recipe
    cases: int | None
    budget_seconds: float | None
    workers: int


class CaseJudged(msgspec.Struct, frozen=True):
    """One more case has a verdict; `done` of them so far, `elapsed` seconds since the start.

    `drawn` is the seconds that drawing it took.
    """

    index: int
    outcome: Outcome
    done: int
    elapsed: float
    drawn: float


class FindingFound(msgspec.Struct, frozen=True):
    """A new signature; the case as drawn is already saved at `path`."""

    signature: Signature
    repro: Repro
    path: Path


class FindingShrunk(msgspec.Struct, frozen=True):
    """A finding has its minimal form, saved at `path`. It was `found_as` another, if a plainer kind of state shows it
    too: findings that end alike are one."""

    signature: Signature
    repro: Repro
    path: Path
    found_as: Signature | None = None


class Notice(msgspec.Struct, frozen=True):
    """Something a user should know that is no finding, in one line."""

    text: str


class Finding(msgspec.Struct, frozen=True):
    """One finding in the summary. `cases` is how many cases failed with this signature."""

    signature: str
    summary: str
    domain: str
    first_case: int
    cases: int
    repro: str
    shrink: dict[str, float | int | bool] | None


class LineCoverage(msgspec.Struct, frozen=True):
    """How many lines of one kernel function ran, out of those that its compiled variants have; which did not."""

    file: str
    function: str
    executed: int
    lines: int
    missed: list[int]


class Summary(msgspec.Struct, frozen=True):
    """What a campaign comes to; the object that `harness run --json` prints (docs/json.md).

    `missing` was required and never reached. `lacking` are operations of which every case was skipped
    because the target lacks something, with its words; asked for by name, they are missing as well.
    `harness_failures` counts cases that the harness itself failed in; notices said where they are kept.
    """

    seed: int
    target: str
    executor: str
    engine: str
    domain: str
    cases: int
    judged: dict[str, int]
    skipped: dict[str, int]
    launches: int
    seconds: float
    cases_per_second: float
    regimes: dict[str, int]
    kernel_lines: list[LineCoverage]
    findings: list[Finding]
    exit_status: int
    missing: list[str]
    harness_failures: int
    lacking: dict[str, str]
    relations: dict[str, int]
    harness_version: str = __version__


class CampaignFinished(msgspec.Struct, frozen=True):
    """The end; `summary.exit_status` is the answer."""

    summary: Summary


Event = CampaignStarted | CaseJudged | FindingFound | FindingShrunk | Notice | CampaignFinished
