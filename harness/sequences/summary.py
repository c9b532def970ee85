"""The summary of a campaign of step sequences."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from harness import __version__
from harness.issues.known_issue import REGRESSION
from harness.kernels.targets.vllm.base_release import BaseRelease
from harness.sequences.result import NOT_RUN
from harness.subject.edits import EditCoverage, EditedLines, edits_in_words
from harness.subject.faults import SEVERAL, Fault, fault_lines, next_lines
from harness.subject.standing import Standing, answered
from harness.subject.subject import Key
from harness.subject.summary import ComparedFinding, Line, sorting_took
from harness.text import counted

NOT_COMPARED = "not compared with known issues"
"""Said of a finding that was not classified: the budget was over, or the harness failed in it."""


def never_run(counters: Mapping[str, int]) -> list[str]:
    """The counters of host code that did not run in any of the sequences chosen for it."""
    ran = {name.split()[2] for name in counters if name.startswith("sequences of ")}
    return [name for name in counters if f" {NOT_RUN}: " in name and name.split()[0] not in ran]


class SequenceFinding(msgspec.Struct):
    """One finding; the sequence with the lowest index represents all with the same key. `repro` is None if it could not
    be saved. `minimal`: it was shrunk, and no budget ended that."""

    signature: str
    issue: str | None
    summary: str
    first_sequence: int
    sequences: int
    events: int
    repro: str | None
    minimal: bool = False
    regression: bool = False
    """The base release of the target does not have the issue."""
    settings: tuple[str, ...] | None = None
    """Those that differ from the defaults of the release; None: not known."""
    edits: list[EditedLines] = []
    """The edited lines of a checkout that its sequence ran: any of them may be the mistake."""
    classified: bool = True
    """Whether the known issue behind it was looked for to the end. If not, that it has no issue says nothing."""

    @property
    def name(self) -> str:
        """Its signature and its issue."""
        return str(Key(self.signature, self.issue, self.regression))

    @property
    def line(self) -> str:
        """The finding in a line."""
        more = "" if self.minimal or self.repro is None else f", not minimal: harness shrink {self.repro}"
        if not self.classified:
            more = f", {NOT_COMPARED}{more}"
        file = self.repro or "not saved"
        size = f"{counted(self.events, 'event')}{', at default options' if self.settings == () else ''}{more}"
        return f"{self.name} in {counted(self.sequences, 'sequence')}: {file} ({size})"


def findings_in_words(findings: Sequence[SequenceFinding], faults: Sequence[Fault]) -> str:
    """`3 findings: 1 known issue, 2 new`, and what follows from that."""
    known = sum(finding.issue is not None and not finding.regression for finding in findings)
    back = dict.fromkeys(finding.issue for finding in findings if finding.regression)
    new = sum(finding.issue is None and finding.classified for finding in findings)
    unknown = sum(not finding.classified for finding in findings)
    parts = [counted(known, "known issue")] if known else []
    parts += [f"{new} new"] if new or not (back or unknown) else []
    parts += [f"{unknown} {NOT_COMPARED}"] if unknown else []
    parts += [f"{REGRESSION} {', '.join(map(str, back))}"] if back else []
    several = f"; {SEVERAL}" if new + unknown > 1 and len(faults) != 1 else ""
    return f"{counted(len(findings), 'finding')}: {', '.join(parts)}{several}"


def part_in_words(ran: int, sequences: int, seconds: float) -> str:
    """What this part of a campaign did, if it did not do all of it."""
    if ran == sequences:
        return ""
    how = f"{ran} of {sequences} in {seconds:.0f} s" if ran else "nothing"
    return f"; this part ran {how}"


def fix_lines(fixes: Sequence[str]) -> Iterator[Line]:
    """The issues that fixes kept out; nothing if none did."""
    if fixes:
        yield Line("", "known issues avoided by fixes (docs/findings.md; --include-known leaves the issues in):")
        for line in textwrap.wrap(", ".join(fixes), 98, break_on_hyphens=False):
            yield Line("", f"  {line}")


class SequenceSummary(msgspec.Struct):
    """The result of a campaign; the object that `harness run --ops sequences --json` prints (docs/json.md).

    In a resumed campaign, `in_this_part` of the `sequences` were run or skipped by this part, in `seconds`.
    """

    target: str
    seed: int
    sequences: int
    steps: int
    steps_per_second: float
    in_this_part: int
    seconds: float
    whole_seconds: float
    skipped: dict[str, int]
    counters: dict[str, int]
    fixes: list[str]
    fixes_without_effect: list[str]
    findings: list[SequenceFinding]
    missing: list[str]
    harness_failures: int
    exit_status: int
    ended_early: str | None = None
    faults: list[Fault] = []
    """The findings grouped by what they share."""
    base: BaseRelease | None = None
    """The base release of a target that is not a known release."""
    lost: list[str] = []
    """What the base release has and the target lacks, so that it was not tested."""
    edited: EditCoverage | None = None
    """How many lines of its edits a checkout ran."""
    changed_rules: list[str] = []
    """Rules of which the target has other words than its base release, whose rules the models play."""
    standing: Standing | None = None
    """What the findings count for in the light of what was known before; None: each counts."""
    harness_version: str = __version__

    @property
    def not_run(self) -> list[str]:
        """Host code that could not run next to our model of it in any of the sequences chosen for it: edits there were
        not tested."""
        return never_run(self.counters)

    @property
    def count(self) -> int:
        return self.sequences

    @property
    def noun(self) -> str:
        return "sequence"

    def compared(self) -> Sequence[ComparedFinding]:
        return [ComparedFinding(one.name, "reachable", one.sequences, one.repro) for one in self.findings]

    def overview(self) -> tuple[str, str]:
        skipped = sum(self.skipped.values())
        return counted(self.steps, "step"), f"; skipped {skipped}" if skipped else ""

    def lines(self, *, verbose: bool) -> Sequence[Line]:
        return list(self._lines(verbose))

    def _lines(self, verbose: bool) -> Iterator[Line]:
        skipped = sum(self.skipped.values())
        more = f" ({skipped} more skipped)" if skipped else ""
        part = part_in_words(self.in_this_part, self.sequences, self.seconds)
        time = "" if self.in_this_part < self.sequences else f" in {self.seconds:.0f} s"
        yield Line(
            "",
            f"{self.target}: {counted(self.sequences - skipped, 'sequence')}{more}, {counted(self.steps, 'step')}"
            f"{time} ({self.steps_per_second:.0f} steps a second of processor time){part}",
        )
        yield from sorting_took(self.seconds, self.whole_seconds)
        for name, count in self.counters.items():
            if name not in self.not_run:
                yield Line("", f"  {name:28} {count:10}")
        for reason, count in self.skipped.items():
            yield Line("", f"  skipped: {reason} ({counted(count, 'sequence')})")
        if self.edited is not None and self.base is not None and self.base.changed:
            yield from self.edited.in_words(verbose=verbose)
        edits = [edits_in_words(finding.edits) for finding in self.findings]
        yield from fault_lines(
            self.faults,
            [finding.line for finding in self.findings],
            [[finding.summary] for finding in self.findings],
            edits,
        )
        if self.standing is not None:
            yield from self.standing.lines([finding.name for finding in self.findings])
        if self.harness_failures:
            text = f"the harness itself failed in {counted(self.harness_failures, 'sequence')}: please report them"
            yield Line("", text, "bad")
        if self.ended_early is not None:
            yield Line("", f"ended early: {self.ended_early}", "warning")
        for line in self.missing:
            yield Line("MISSING", line, "bad")
        for line in self.lost:
            if line not in self.not_run:
                yield Line("LOST", line, "bad")
        for line in self.changed_rules:
            yield Line("changed", line, "warning")
        for line in self.not_run:
            yield Line("NOT RUN", f"{line} ({counted(self.counters[line], 'sequence')})", "bad")
        yield from fix_lines([fix for fix in self.fixes if fix not in self.fixes_without_effect])
        if self.faults:
            again = f"harness run --ops sequences -t {self.target}{'' if self.fixes else ' --fixes none'} --fail-fast"
            yield from next_lines(self._first.repro, self.target, again)

    @property
    def _first(self) -> SequenceFinding:
        """The finding to look at first: the simplest of the first fault that is new, or back, if there is one."""
        simplest = [self.findings[fault.findings[0]] for fault in self.faults]
        new = (one for one in simplest if one.classified and (one.issue is None or one.regression))
        return next(new, simplest[0])

    @property
    def _size(self) -> str:
        """What the answer rests on: `150 sequences, 7762 steps`."""
        ran = self.sequences - sum(self.skipped.values())
        size = f"{counted(ran, 'sequence')}, {counted(self.steps, 'step')}"
        if self.edited is not None and self.base is not None and self.base.changed and self.edited.unlooked:
            size += f"; {self.edited.unlooked}"
        return size

    @property
    def _lost(self) -> str:
        return ", but part of the base release is LOST or did not run (above)" if self.lost else ""

    def answer(self) -> Line | None:
        return answered(self._answer(), self.standing, len(self.findings), self.exit_status)

    def _answer(self) -> Line:
        """The same, as if nothing had been known before."""
        if self.findings:
            return Line("", f"{findings_in_words(self.findings, self.faults)}{self._lost}", "bad")
        if self.lost:
            return Line("", f"nothing found in {self._size}{self._lost} (status 3)", "bad")
        if self.missing:
            return Line("", f"nothing found in {self._size}, less than a campaign has to meet (MISSING, above)", "bad")
        nothing = f"nothing found in {self._size}{' (known issues were kept out)' if self.fixes else ''}"
        if self.not_run:
            return Line("", f"{nothing}, and host code could not be run (NOT RUN, above)", "warning")
        return Line("", nothing, "good")
