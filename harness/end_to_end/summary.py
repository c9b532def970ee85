"""The summary of a campaign on whole engines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from harness import __version__
from harness.end_to_end.verdict import TIES
from harness.kernels.targets.vllm.base_release import BaseRelease
from harness.sequences.summary import SequenceFinding, findings_in_words, fix_lines, part_in_words
from harness.subject.faults import Fault, fault_lines, next_lines
from harness.subject.standing import Standing, answered
from harness.subject.summary import ComparedFinding, Line, sorting_took
from harness.text import counted

NOT_LOOKED_AT = (
    "not looked at: which edited lines ran, and whether what the harness knows by name is LOST in this checkout"
    " (`--ops sequences` says both)"
)
"""Of a checkout."""


class EngineSummary(msgspec.Struct):
    """The result of a campaign; the object that `harness run --ops engine --json` prints (docs/json.md).

    In a resumed campaign, `in_this_part` of the `sequences` were run or skipped by this part, in `seconds`.
    """

    target: str
    build: str
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
    fixes_without_form: list[str]
    """Those of them that cannot be switched on in an engine; sequences that need one are skipped."""
    findings: list[SequenceFinding]
    missing: list[str]
    harness_failures: int
    exit_status: int
    ended_early: str | None = None
    faults: list[Fault] = []
    """The findings grouped by what they share."""
    base: BaseRelease | None = None
    """The base release of a target that is not a known release."""
    standing: Standing | None = None
    """What the findings count for in the light of what was known before; None: each counts."""
    harness_version: str = __version__

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
        return counted(self.steps, "engine step"), f"; skipped {skipped}" if skipped else ""

    def lines(self, *, verbose: bool) -> Sequence[Line]:
        return list(self._lines())

    def _lines(self) -> Iterator[Line]:
        skipped = sum(self.skipped.values())
        more = f" ({skipped} more skipped)" if skipped else ""
        part = part_in_words(self.in_this_part, self.sequences, self.seconds)
        time = "" if self.in_this_part < self.sequences else f" in {self.seconds:.0f} s"
        ran = f"{counted(self.sequences - skipped, 'sequence')}{more}, {counted(self.steps, 'engine step')}"
        yield Line(
            "",
            f"{self.target}: {ran}{time} ({self.steps_per_second:.0f} steps a second of processor time){part}",
        )
        yield Line("", f"  {self.build}")
        yield from sorting_took(self.seconds, self.whole_seconds)
        for name, count in self.counters.items():
            yield Line("", f"  {name:28} {count:10}")
        for reason, count in self.skipped.items():
            yield Line("", f"  skipped: {reason} ({counted(count, 'sequence')})")
        yield from fault_lines(
            self.faults, [finding.line for finding in self.findings], [[finding.summary] for finding in self.findings]
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
        if self.base is not None:
            yield Line("", NOT_LOOKED_AT)
        yield from fix_lines([fix for fix in self.fixes if fix not in self.fixes_without_form])
        if self.faults:
            repro = self.findings[self.faults[0].findings[0]].repro
            yield from next_lines(repro, self.target, f"harness run --ops engine -t {self.target} --fail-fast")

    def answer(self) -> Line | None:
        return answered(self._answer(), self.standing, len(self.findings), self.exit_status)

    def _answer(self) -> Line:
        """The same, as if nothing had been known before."""
        if self.findings:
            return Line("", findings_in_words(self.findings, self.faults), "bad")
        ran = self.sequences - sum(self.skipped.values())
        ties = self.counters.get(TIES, 0)
        size = f"{counted(ran, 'sequence')}, {counted(self.steps, 'engine step')}, {counted(ties, 'tie')}"
        if self.missing:
            return Line("", f"nothing found in {size}, less than a campaign has to meet (MISSING, above)", "bad")
        kept_out = " (known issues were kept out)" if self.fixes else ""
        return Line("", f"nothing found in {size}{kept_out}", "good")
