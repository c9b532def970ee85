"""A past finding is one that the folder of an earlier campaign holds, and the situation in which it shows.

The folder is only read. Its statistics list the findings, their files hold the smallest cases, and the journal says in
which cases each showed (harness.campaign.situation).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from harness.campaign.folder import AS_DRAWN, MET, CampaignFolder
from harness.campaign.situation import Journaled, Situation, journaled, named
from harness.campaign.stats import FoundSoFar, Stats, StatsFile
from harness.case import InvalidCase
from harness.files import require_regular
from harness.refusal import Refusal
from harness.repro import AnyRepro
from harness.subject.registry import AnySubject, read_file, subject_classes
from harness.subject.subject import Key
from harness.text import reason

FindingKey = tuple[str, str, str | None]
"""What distinguishes a finding from others, in any campaign: its subject, its signature, and its known issue."""


class NoPast(Refusal):
    """A folder that holds no campaign that can be read; the message is one line that says why."""


class PastFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of an earlier campaign. `subject` is the kind of its case. `situation` is None where the folder does
    not say in which of its cases the finding shows."""

    subject: str
    signature: str
    issue: str | None
    file: Path | None
    situation: Situation | None

    @property
    def key(self) -> FindingKey:
        return self.subject, self.signature, self.issue

    @property
    def name(self) -> str:
        return str(Key(self.signature, self.issue))


class Past(msgspec.Struct, frozen=True):
    """The campaigns in a folder by subject, and their findings."""

    folder: Path
    campaigns: dict[str, Stats]
    journals: dict[str, Journaled]
    findings: list[PastFinding]

    @property
    def target(self) -> str:
        """What was tested, of several campaigns each that was."""
        return ", ".join(dict.fromkeys(stats.target for stats in self.campaigns.values()))

    @property
    def updated(self) -> str:
        """When it was last written."""
        return max(stats.updated for stats in self.campaigns.values())

    @property
    def notices(self) -> list[str]:
        """What is missing in it, in lines."""
        unended = [stats for stats in self.campaigns.values() if stats.exit_status is None or stats.ended_early]
        return [f"'{self.folder}': the campaign of {one.noun}s did not reach its end" for one in unended]


def read_past(folder: Path) -> Past:
    """The findings that a campaign folder holds. Raises NoPast."""
    file = CampaignFolder(folder).stats_file
    try:
        require_regular(file)
        rows = msgspec.json.decode(file.read_bytes(), type=StatsFile).campaigns
        campaigns = {name: msgspec.convert(row, Stats) for name, row in rows.items()}
    except FileNotFoundError:
        raise NoPast(f"there is no {file}: is '{folder}' the folder of a campaign, or of one of its targets?") from None
    except OSError as error:
        raise NoPast(f"{file}: {error.strerror or error}") from error
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise NoPast(f"{file} is damaged: {reason(error)}") from error
    if not campaigns:
        raise NoPast(f"{file} names no campaign")
    classes = {one.name: one for one in subject_classes()}
    journals = {name: journaled(folder, classes[name]) for name in campaigns if name in classes}
    present = {name: journal for name, journal in journals.items() if journal is not None}
    findings = [
        _finding(folder, name, classes.get(name), found, present.get(name))
        for name, stats in campaigns.items()
        for found in stats.findings
    ]
    return Past(folder, campaigns, present, findings)


def _finding(
    folder: Path, name: str, subject: type[AnySubject] | None, found: FoundSoFar, journal: Journaled | None
) -> PastFinding:
    file, repro = _file(folder, found)
    situation = None
    if subject is not None and journal is not None and repro is not None:
        situation = _situation(found, subject.regimes_of(repro), journal)
    return PastFinding(subject=name, signature=found.signature, issue=found.issue, file=file, situation=situation)


def _file(folder: Path, found: FoundSoFar) -> tuple[Path | None, AnyRepro | None]:
    """The file of a finding, wherever the folder is now, and what it holds."""
    if found.file is not None:
        name = Path(found.file).name
        for file in (folder / name, folder / MET / name, folder / AS_DRAWN / name):
            try:
                return file, read_file(file)[1]
            except (OSError, InvalidCase):
                continue
    return None, None


def _situation(found: FoundSoFar, regimes: Iterable[str], journal: Journaled) -> Situation | None:
    """What all cases that showed a finding have in common with its smallest case."""
    failing = [entry for entry in journal.entries if entry.signature == found.signature]
    if not failing or not found.count:
        return None
    common = set(regimes)
    for entry in failing:
        common &= set(named(entry.reached, journal.regimes))
    operation = found.signature.partition("/")[0] if journal.regimes else None
    drawn = journal.drawn_as
    situation = Situation(operation=operation, regimes=tuple(sorted(common)), one_in=1, drawn_as=drawn)
    showed = min(len(failing), found.count)
    return msgspec.structs.replace(situation, one_in=-(-(journal.passed(situation) + showed) // showed))
