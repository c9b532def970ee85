"""A summary is the result of a campaign: an object for machines, and lines for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

Tone = Literal["plain", "good", "warning", "bad", "dim"]


class Line(NamedTuple):
    """One line: a word in front, which may be empty, and the rest. The tone is that of the word, or of a line without
    one."""

    word: str
    text: str
    tone: Tone = "plain"


MUCH_LONGER = 1.2
"""Times as long as judging took: the rest is then worth a line."""


def sorting_took(seconds: float, whole_seconds: float) -> list[Line]:
    """The time of a campaign with sorting findings out and shrinking them, where that differs much from judging."""
    if whole_seconds - seconds < 1 or whole_seconds < MUCH_LONGER * seconds:
        return []
    return [Line("", f"{whole_seconds:.1f} s with sorting findings out")]


class ComparedFinding(NamedTuple):
    """What a comparison of several targets needs of a finding: `cases` is how many failed with its signature."""

    signature: str
    domain: str
    cases: int
    repro: str | None


@runtime_checkable
class Summary(Protocol):
    """A msgspec Struct; its fields are what `--json` prints (docs/json.md)."""

    @property
    def target(self) -> str: ...
    @property
    def exit_status(self) -> int: ...
    @property
    def count(self) -> int:
        """How many cases were judged."""

    @property
    def noun(self) -> str:
        """What one of them is called."""

    def compared(self) -> Sequence[ComparedFinding]:
        """The findings."""

    def overview(self) -> tuple[str, str]:
        """What was judged, in a phrase, and what was not, which may be empty."""

    def lines(self, *, verbose: bool) -> Sequence[Line]:
        """All of it in words, but for the answer. `verbose`: with the names of what was not reached."""

    def answer(self) -> Line | None:
        """The last line."""
