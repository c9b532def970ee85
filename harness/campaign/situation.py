"""A situation is the cases among which a finding shows, as the journal of a campaign tells them apart.

So a later campaign, whose journal says what it judged, can say whether it would have met the finding again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.campaign.journal import SHARD, SOURCES, entries_of
from harness.files import require_regular
from harness.subject.entry import Entry, regimes_digest
from harness.subject.registry import AnySubject

ENOUGH = 10
"""A finding that one in N cases of its situation showed is gone where ENOUGH times N of them do not show it. One that a
single case showed may be rarer than that: of such, about one in a hundred seems gone by chance, of others far fewer."""

NOT_DRAWING = ("target", "base", "build", SOURCES, SHARD, "seed")
"""Settings of a journal, and of the groups in it, that do not decide how cases are drawn and judged: the same cases can
be judged on any target."""


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


def named(bits: str, names: Sequence[str]) -> list[str]:
    """The regimes that the bits of an entry mean, of all `names` of a journal."""
    number = int(bits or "0", 16)
    return [name for place, name in enumerate(names) if number >> place & 1]
