"""A mute says that a finding is known, why it does not fail a run, and until when."""

from __future__ import annotations

import datetime
import hashlib
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from harness.campaign.situation import Situation
from harness.issues.registry import TOGETHER, current_name
from harness.repro import AnyRepro
from harness.subject.subject import Key

DEFAULT_ONE_IN = 100
"""How rare a finding is taken to be among the cases in its regimes, where its mute does not say."""

Words = Annotated[str, Meta(min_length=1, max_length=1000, pattern=r"\S")]


class Mute(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry. It covers findings with its `signature`, with its `issue`, or with both; of these, where it has them,
    only those that go back to its `line` (`path:line`), and those whose smallest case has this `sha256` (its first
    digits are enough, and the names of files end with eight of them). It holds up to and including the day `expires`.

    `regimes`, `one_in` and `drawn_as` are the situation in which the finding shows (harness.campaign.past); an entry
    with `line` or `sha256` has none of them."""

    signature: Words | UnsetType = UNSET
    issue: Words | UnsetType = UNSET
    line: Annotated[str, Meta(pattern=r"^[^\s:]+:[0-9]+$")] | UnsetType = UNSET
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{8,64}$")] | UnsetType = UNSET
    reason: Words
    link: Words | UnsetType = UNSET
    expires: datetime.date | UnsetType = UNSET
    regimes: list[str] | UnsetType = UNSET
    one_in: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    drawn_as: Annotated[str, Meta(pattern="^[0-9a-f]{8}$")] | UnsetType = UNSET

    @property
    def covers_what(self) -> tuple[str | UnsetType, ...]:
        """What it covers: no two entries of a file have the same."""
        return self.signature, self.issue, self.line, self.sha256

    @property
    def name(self) -> str:
        """What it covers, in words."""
        signature, issue, line, digest = (None if one is UNSET else one for one in self.covers_what)
        name = f"issue {issue}" if signature is None else str(Key(signature, issue))
        return " ".join(filter(None, [name, line and f"at {line}", digest and f"of case {digest[:8]}"]))

    def expired(self, today: datetime.date) -> bool:
        """Whether it does not hold any more."""
        return self.expires is not UNSET and self.expires < today

    @property
    def situation(self) -> Situation | None:
        """The cases among which its finding shows; None if it does not say. With `regimes`, even none of them, it is of
        a kind of case that has regimes, and counts judged operations."""
        has_regimes = self.regimes is not UNSET
        operation = self.signature.partition("/")[0] if has_regimes and self.signature is not UNSET else None
        if self.drawn_as is UNSET and not operation and not (has_regimes and self.regimes):
            return None
        return Situation(
            operation=operation,
            regimes=() if self.regimes is UNSET else tuple(self.regimes),
            one_in=DEFAULT_ONE_IN if self.one_in is UNSET else self.one_in,
            drawn_as=None if self.drawn_as is UNSET else self.drawn_as,
        )

    def covers(self, key: Key, repro: AnyRepro, case: bytes) -> bool:
        """Whether it covers a finding: `key` has the issue as reports name it, `case` is its case as JSON. A regression
        is covered only by an entry with its signature."""
        if self.signature is not UNSET and self.signature != key.signature:
            return False
        if self.issue is not UNSET and self._current_issue != key.issue:
            return False
        if self.signature is UNSET and key.regression:
            return False
        if self.line is not UNSET and self.line not in (f"{one.file}:{one.line}" for one in repro.evidence.places):
            return False
        return self.sha256 is UNSET or hashlib.sha256(case).hexdigest().startswith(self.sha256)

    @property
    def _current_issue(self) -> str:
        assert self.issue is not UNSET
        return TOGETHER.join(map(current_name, self.issue.split(TOGETHER)))
