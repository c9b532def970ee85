"""A summary is what a sequence campaign comes to."""

from __future__ import annotations

import msgspec

from harness import __version__
from harness.reports.words import counted
from harness.sequences.known import described
from harness.sequences.result import NOT_RUN


class SequenceFinding(msgspec.Struct):
    """What was found; the sequence with the lowest index stands for all that look alike. `repro` is None for what
    could not be saved. `minimal`: it was shrunk, and no budget ended that."""

    signature: str
    issue: str | None
    summary: str
    first_sequence: int
    sequences: int
    events: int
    repro: str | None
    minimal: bool = False

    @property
    def lines(self) -> list[str]:
        """It in words, for people."""
        issue = f" [{self.issue}]" if self.issue else ""
        more = "" if self.minimal or self.repro is None else f", not minimal: harness shrink {self.repro}"
        return [
            f"FOUND {self.signature}{issue} in {counted(self.sequences, 'sequence')}: {self.summary}",
            *(f"  {line}" for line in described(self.issue)),
            f"  {self.repro or 'not saved'} ({counted(self.events, 'event')}{more})",
        ]


class SequenceSummary(msgspec.Struct):
    """What a campaign comes to; the object that `harness run --ops sequences --json` prints (docs/json.md)."""

    target: str
    seed: int
    sequences: int
    steps: int
    steps_per_second: float
    seconds: float
    skipped: dict[str, int]
    counters: dict[str, int]
    fixes: list[str]
    fixes_without_effect: list[str]
    findings: list[SequenceFinding]
    missing: list[str]
    harness_failures: int
    exit_status: int
    ended_early: str | None = None
    harness_version: str = __version__

    @property
    def not_run(self) -> list[str]:
        """Host code that could not run beside our model of it in any sequence that was to have it: edits there were
        looked for in vain."""
        ran = {name.split()[2] for name in self.counters if name.startswith("sequences of ")}
        return [name for name in self.counters if f" {NOT_RUN}: " in name and name.split()[0] not in ran]

    @property
    def answer(self) -> str:
        """What it comes to in one line, for people."""
        if self.findings:
            known = sum(finding.issue is not None for finding in self.findings)
            kinds = (
                (counted(known, "known issue"), known),
                (f"{len(self.findings) - known} new", known < len(self.findings)),
            )
            return f"{counted(len(self.findings), 'finding')}: {', '.join(text for text, some in kinds if some)}"
        if self.missing:
            return "nothing found, in less than a campaign has to meet (MISSING, above)"
        nothing = "nothing found beside known issues" if self.fixes else "nothing found"
        return f"{nothing}, and host code could not be run (NOT RUN, above)" if self.not_run else nothing
