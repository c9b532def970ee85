"""Standing is what the findings of a run count for, in the light of what was known before it.

A finding that is muted (`--known`), or that an earlier campaign had already (`--baseline`), is listed and does not make
status 1. A mute that has expired does, and so does one whose finding no longer occurs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import msgspec

from harness.subject.summary import Line
from harness.text import counted

Answer = Literal["FAILED", "FIXED", "SKIPPED"]
"""Of a replay: whether a finding is still there, or why that was not looked at."""


class Muted(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that a mute covers, by its number in the summary. `mute` is the name of the entry, `until` the last day
    on which it holds (None: it has no end)."""

    finding: int
    mute: str
    reason: str
    until: str | None = None
    link: str | None = None

    @property
    def why(self) -> str:
        """The reason, until when, and where to read on."""
        until = "" if self.until is None else f", until {self.until}"
        return f"{self.reason}{until}{f' ({self.link})' if self.link else ''}"


class ExpiredMute(msgspec.Struct, frozen=True, kw_only=True):
    """A mute that held up to and including the day `on`."""

    mute: str
    on: str

    def __str__(self) -> str:
        return f"mute of {self.mute} expired on {self.on}"


class NeedlessMute(msgspec.Struct, frozen=True, kw_only=True):
    """A mute whose finding no longer occurs: `cases` passed in its situation, of which one in `one_in` showed it when
    the mute was written."""

    mute: str
    cases: int
    one_in: int

    def __str__(self) -> str:
        before = "each of its cases" if self.one_in == 1 else f"one in {self.one_in} of its cases"
        seen = f"{before} showed it, and now {self.cases} passed"
        return f"{self.mute} no longer occurs: remove its entry ({seen})"


class StillThere(msgspec.Struct, frozen=True, kw_only=True):
    """A finding, by its number in the summary, that the earlier campaign had too. `since` and `first_target` say when
    and where it was seen first, as far as that is known."""

    finding: int
    since: str | None = None
    first_target: str | None = None


class Absent(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of the earlier campaign that this one does not have, by its name. `cases` is the number of cases in its
    situation that passed here. `why_unknown` says why that is too little to call it gone; None: it is gone."""

    name: str
    cases: int
    why_unknown: str | None = None


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison with an earlier campaign: its folder and target, and when it was last written; the numbers of
    findings that are new since then; those that both have; and those that only the earlier one has."""

    folder: str
    target: str
    updated: str
    new: list[int]
    still: list[StillThere]
    gone: list[Absent]
    not_looked_at: list[Absent]


class CorpusAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What came of replaying a file of the corpus before the run: `FAILED`, `FIXED`, or `SKIPPED` for the `reason`.
    `signature` is that of a failure, `issue` the known issue that it is or looks like, `summary` what was wrong.
    `muted` says why it does not count; None if it does."""

    file: str
    answer: Answer
    signature: str | None = None
    issue: str | None = None
    summary: str = ""
    reason: str | None = None
    muted: str | None = None

    @property
    def counts(self) -> bool:
        """Whether it makes status 1."""
        return self.answer == "FAILED" and self.muted is None

    def __str__(self) -> str:
        return f"{self.file} of the corpus FAILED: {self.name}"

    @property
    def name(self) -> str:
        """The signature of a failure, with its issue in brackets."""
        return f"{self.signature} [{self.issue}]" if self.issue else str(self.signature)


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """`baseline` is None where no earlier campaign was named. `corpus` has the files that were replayed first."""

    muted: list[Muted] = []
    expired: list[ExpiredMute] = []
    needless: list[NeedlessMute] = []
    baseline: Baseline | None = None
    corpus: list[CorpusAnswer] = []

    def counts(self, finding: int) -> bool:
        """Whether a finding, by its number, makes status 1."""
        known = any(one.finding == finding for one in self.muted)
        return not known and (self.baseline is None or finding in self.baseline.new)

    def fails(self, findings: int) -> bool:
        """Whether a run with so many findings has status 1."""
        return bool(self.problems) or any(map(self.counts, range(findings)))

    @property
    def problems(self) -> list[str]:
        """What makes status 1 in addition to findings, in words."""
        return [*(str(one) for one in self.corpus if one.counts), *self.mute_problems]

    @property
    def mute_problems(self) -> list[str]:
        """Those of them that are about mutes."""
        return [str(one) for one in (*self.expired, *self.needless)]

    def lines(self, names: Sequence[str]) -> Iterator[Line]:
        """Lines for people; `names` are those of the findings."""
        yield from _corpus_lines(self.corpus)
        for muted in self.muted:
            yield Line("muted", f"{names[muted.finding]}: {muted.why}", "dim")
        for problem in self.expired:
            yield Line("EXPIRED", str(problem), "bad")
        for needless in self.needless:
            yield Line("NEEDLESS", f"mute: {needless}", "bad")
        if self.baseline is not None:
            yield from _baseline_lines(self.baseline, names)


def _corpus_lines(corpus: Sequence[CorpusAnswer]) -> Iterator[Line]:
    if not corpus:
        return
    answers = Counter(one.answer for one in corpus)
    counts = ", ".join(f"{answers[answer]} {answer}" for answer in get_args(Answer))
    yield Line("", f"{counted(len(corpus), 'file')} of the corpus replayed: {counts}")
    for one in corpus:
        if one.counts:
            yield Line("FAILED", f"{one.file}: {one.name}: {one.summary}", "bad")
        elif one.answer == "FAILED":
            yield Line("muted", f"{one.file}: {one.name}: {one.muted}", "dim")
        elif one.answer == "SKIPPED":
            yield Line("skipped", f"{one.file}: {one.reason}", "warning")


def _baseline_lines(baseline: Baseline, names: Sequence[str]) -> Iterator[Line]:
    when = f"'{baseline.folder}' ({baseline.target}, {baseline.updated})"
    yield Line("", f"compared with {when}:")
    for number in baseline.new:
        yield Line("new", names[number], "bad")
    for still in baseline.still:
        yield Line("still", f"{names[still.finding]}{_since(still)}", "dim")
    for gone in baseline.gone:
        yield Line("gone", f"{gone.name} ({counted(gone.cases, 'case')} in its situation passed)", "good")
    for absent in baseline.not_looked_at:
        yield Line("not looked at", f"{absent.name}: {absent.why_unknown}", "dim")


def _since(still: StillThere) -> str:
    return "" if still.since is None else f", first seen {still.since} in {still.first_target}"


def answered(answer: Line | None, standing: Standing | None, findings: int, exit_status: int) -> Line | None:
    """The last line of a summary with so many findings, and what they count for."""
    if answer is None or standing is None:
        return answer
    parts = [answer.text]
    counting = sum(map(standing.counts, range(findings)))
    if standing.muted:
        parts.append(f"{len(standing.muted)} muted")
    if standing.baseline is not None:
        parts.append(f"{len(standing.baseline.new)} new since '{standing.baseline.folder}'")
    failed = sum(one.counts for one in standing.corpus)
    if failed:
        parts.append(f"{counted(failed, 'file')} of the corpus FAILED")
    parts += standing.mute_problems
    if findings and not counting:
        parts.append(f"no finding counts (status {exit_status})")
    elif standing.problems and not findings:
        parts[-1] += f" (status {exit_status})"
    tone = "warning" if findings and not exit_status else "bad" if standing.problems else answer.tone
    return Line(answer.word, "; ".join(parts), tone)
