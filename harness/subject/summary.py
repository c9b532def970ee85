"""A summary is the result of a campaign: an object for machines, and lines for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

Tone = Literal["plain", "good", "warning", "bad", "dim"]


class Line(NamedTuple):
    """One line: a leading word, which may be empty, and the rest. The tone applies to the word, or to the line if there
    is none."""

    word: str
    text: str
    tone: Tone = "plain"


MUCH_LONGER = 1.2
"""If the whole campaign took more than this many times as long as judging, a line says so."""


def sorting_took(seconds: float, whole_seconds: float) -> list[Line]:
    """The time of a campaign with sorting out and shrinking findings, if that differs much from judging alone."""
    if whole_seconds - seconds < 1 or whole_seconds < MUCH_LONGER * seconds:
        return []
    return [Line("", f"{whole_seconds:.1f} s with sorting findings out")]


class ComparedFinding(NamedTuple):
    """A finding as a comparison of several targets needs it: `cases` is how many failed with its signature."""

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
        """The word for one case."""

    def compared(self) -> Sequence[ComparedFinding]:
        """The findings."""

    def overview(self) -> tuple[str, str]:
        """A phrase for what was judged, and one for what was not, which may be empty."""

    def lines(self, *, verbose: bool) -> Sequence[Line]:
        """The summary as lines, without the answer. `verbose`: with the names of what was not reached."""

    def answer(self) -> Line | None:
        """The last line."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a campaign as data: what reports need of a summary, so that they can be made when it is long over.
    `answer` is the text of its last line, None if it has none; `summary` is the object that `--json` prints."""

    target: str
    noun: str
    count: int
    answer: str | None
    summary: dict[str, Any]


def ending_of(summary: Summary) -> Ending:
    """The end of the campaign with this summary."""
    answer = summary.answer()
    return Ending(
        target=summary.target,
        noun=summary.noun,
        count=summary.count,
        answer=None if answer is None else answer.text,
        summary=msgspec.to_builtins(summary),
    )
