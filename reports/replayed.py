"""The answer of a replay, human-readable."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from harness.check.outcome import Outcome, with_recorded_diagnosis
from harness.reports.console import ReportConsole
from harness.reports.shown import print_evidence
from harness.repro import Repro
from harness.subject.edits import edits_in_words
from harness.subject.subject import Replayed

_STYLE = {"FAILED": "bold red", "FIXED": "bold green", "SKIPPED": "bold yellow"}


def print_replayed(file: Path, repro: Repro, result: Replayed) -> None:
    """Print FAILED / FIXED / SKIPPED on the first line, then the reason."""
    console = ReportConsole()
    console.print(
        Text.assemble((result.answer, _STYLE[result.answer]), f" {file} on {result.target} ({result.executor})")
    )
    outcome: Outcome = result.result
    skips = [verdict for verdict in outcome.verdicts if verdict.status == "skip"]
    for verdict in skips:
        console.print(Text(f"{verdict.operation} skipped: {verdict.reason}: {verdict.detail}"))
    failure = outcome.failure
    reason = result.reason or ""
    is_said = bool(skips) and reason in ("", *(f"{skip.reason}: {skip.detail}" for skip in skips))
    if result.answer == "SKIPPED" and not is_said:
        console.print(Text(reason))
    if failure is None or failure.evidence is None:
        return
    if not result.same:
        console.print(Text(f"not as recorded: {repro.signature} then, {failure.signature} now", style="yellow"))
    print_evidence(
        console, with_recorded_diagnosis(failure.evidence, repro.evidence) if result.same else failure.evidence
    )
    if result.edits:
        console.print(Text(edits_in_words(result.edits)))
