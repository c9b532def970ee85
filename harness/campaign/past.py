"""A past finding is one that the folder of an earlier campaign holds, and the situation in which it shows.

The folder is only read. Its statistics list the findings, their files hold the smallest cases, and the journal says in
which cases each showed. So a later campaign can say whether it would have met a finding again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.campaign.folder import AS_DRAWN, MET, CampaignFolder
from harness.campaign.journal import SHARD, SOURCES, entries_of
from harness.campaign.stats import FoundSoFar, Stats, StatsFile
from harness.case import InvalidCase
from harness.files import require_regular
from harness.refusal import Refusal
from harness.repro import AnyRepro
from harness.subject.entry import Entry, regimes_digest
from harness.subject.registry import AnySubject, read_file, subject_classes
from harness.subject.subject import Key
from harness.text import reason

ENOUGH = 10
"""A finding that one in N cases of its situation showed is gone where ENOUGH times N of them do not show it. One that a
single case showed may be rarer than that: of such, about one in a hundred seems gone by chance, of others far fewer."""

NOT_DRAWING = ("target", "base", "build", SOURCES, SHARD, "seed")
"""Settings of a journal, and of the groups in it, that do not decide how cases are drawn and judged: the same cases can
be judged on any target."""


FindingKey = tuple[str, str, str | None]
"""What distinguishes a finding from others, in any campaign: its subject, its signature, and its known issue."""


class NoPast(Refusal):
    """A folder that holds no campaign that can be read; the message is one line that says why."""


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """The cases among which a finding shows: those that judged its `operation` (None: any) in all of its `regimes`
    together, drawn in the way that `drawn_as` names (None: any). One in `one_in` of them showed it, the others passed.
    """

    operation: str | None
    regimes: tuple[str, ...]
    one_in: int
    drawn_as: str | None

    @property
    def enough(self) -> int:
        """So many such cases without the finding say that it is gone."""
        return ENOUGH * self.one_in


class Journaled(msgspec.Struct, frozen=True):
    """What the journal of a campaign says: how its cases were drawn, its entries, and the names of their regimes."""

    drawn_as: str
    entries: list[Entry]
    regimes: tuple[str, ...]

    def passed(self, situation: Situation) -> int:
        """How many cases were judged in a situation, however they were drawn, and nothing was found in them: another
        finding may hide this one."""
        wanted = sum(1 << self.regimes.index(name) for name in set(situation.regimes))
        return sum(entry.signature is None and _is_in(entry, wanted, situation.operation) for entry in self.entries)

    def why_unknown(self, situation: Situation | None) -> tuple[int, str | None]:
        """How many cases passed in the situation of a finding, and why they do not say whether it is gone; None if they
        do."""
        if situation is None:
            return 0, "the earlier campaign does not say in which of its cases it shows"
        if situation.drawn_as not in (None, self.drawn_as):
            return 0, "cases are drawn in another way here"
        if not set(situation.regimes) <= set(self.regimes):
            return 0, "cases of this kind are in none of its regimes"
        cases = self.passed(situation)
        if cases >= situation.enough:
            return cases, None
        return cases, f"{cases} of its cases passed, and {situation.enough} are needed"


def _is_in(entry: Entry, wanted: int, operation: str | None) -> bool:
    if entry.skipped is not None or int(entry.reached or "0", 16) & wanted != wanted:
        return False
    return operation is None or entry.counters.get(f"judged {operation}", 0) > 0


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


def journaled(folder: Path, subject: type[AnySubject]) -> Journaled | None:
    """The journal of a subject's campaign; None if there is none that this version understands. Lines that cannot be
    read are left out."""
    try:
        require_regular(folder / subject.journal)
        first, *lines = (folder / subject.journal).read_bytes().split(b"\n")
        head = msgspec.json.decode(first, type=dict[str, Any])
    except (OSError, msgspec.DecodeError, RecursionError):
        return None
    names = tuple(subject.regimes)
    if head.get("regimes", regimes_digest(names)) != regimes_digest(names):
        return None
    entries = [entry for entry in entries_of(filter(None, lines))[0] if entry.fits(names)]
    return Journaled(drawn_as(head), entries, names)


def drawn_as(head: Mapping[str, Any]) -> str:
    """A short name of how a campaign draws and judges cases, from the first line of its journal: equal for all targets
    and seeds."""
    settings = {name: _drawing(value) if isinstance(value, dict) else value for name, value in _drawing(head).items()}
    return hashlib.sha256(msgspec.json.encode(settings, order="sorted")).hexdigest()[:8]


def _drawing(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in NOT_DRAWING}


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
        common &= set(_named(entry.reached, journal.regimes))
    operation = found.signature.partition("/")[0] if journal.regimes else None
    drawn = journal.drawn_as
    situation = Situation(operation=operation, regimes=tuple(sorted(common)), one_in=1, drawn_as=drawn)
    showed = min(len(failing), found.count)
    return msgspec.structs.replace(situation, one_in=-(-(journal.passed(situation) + showed) // showed))


def _named(bits: str, names: Sequence[str]) -> list[str]:
    number = int(bits or "0", 16)
    return [name for place, name in enumerate(names) if number >> place & 1]
