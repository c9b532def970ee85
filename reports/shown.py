"""A human-readable repro: layout, tables, requests, what moves where, expected against found.

Needs neither torch nor a target: the oracle says what should happen, the file what did happen.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from harness.check.outcome import Difference, Evidence
from harness.issues.registry import kernel_issue
from harness.reports.case_in_words import case_in_words
from harness.reports.console import ReportConsole
from harness.reports.words import difference_in_words, places_in_words, violation_in_words
from harness.repro import Repro
from harness.text import counted


def print_repro(file: Path, repro: Repro) -> None:
    """Print what a reader of a bug report wants to know first. Raises InvalidCase."""
    console = ReportConsole()
    origin = repro.origin
    case = repro.case
    sections = case_in_words(case)  # an invalid case is refused before anything is printed
    console.print(Text(str(repro.signature), style="bold"))
    drawn = "" if origin.seed is None else f", seed {origin.seed}"
    drawn += "" if origin.index is None else f", case {origin.index}"
    words = violation_in_words(repro.signature.oracle, repro.signature.violation)
    console.print(Text(f"{words} (violation {repro.signature.violation})"))
    console.print(Text(f"{file}: found on {origin.target} ({origin.executor}){drawn}; {case.domain} domain"))
    known = kernel_issue(origin.target, repro.signature, case)
    if known is not None:
        console.print(Text(f"Looks like a known issue: {known.line}"))
    console.print(
        Text(
            "docs/violations.md explains a finding's name, docs/domain.md what has to happen",
            style="dim",
        )
    )
    for section in sections:
        console.print(Text(f"\n{section.title}", style="bold"))
        for line in section.lines:
            console.print(Text(line))
    console.print(Text("\nFound", style="bold"))
    print_evidence(console, repro.evidence)


def print_evidence(console: Console, evidence: Evidence) -> None:
    """Print one sentence, then the differing bytes, each run of them with what happened to it, then details.

    Each place occurs once: the sentence is left out if it is about the first of the differing bytes, and so are details
    that repeat it."""
    if evidence.diagnosis is not None:
        console.print(Text.assemble(("Diagnosis: ", "bold"), evidence.diagnosis.sentence))
    first = evidence.differences[0] if evidence.differences else None
    if first is None or not evidence.summary.startswith(f"{first.place}: "):
        console.print(Text(evidence.summary))
    for difference in evidence.differences:
        _print_difference(console, difference)
    if sum(difference.size for difference in evidence.differences) < evidence.total_bytes and evidence.differences:
        console.print(Text(f"{counted(evidence.total_bytes, 'byte')} differ in all", style="dim"))
    margin = "" if evidence.summary in evidence.details else "  "  # the sentence may be one of several similar ones
    for detail in dict.fromkeys(evidence.details):
        if detail != evidence.summary:
            console.print(Text(f"{margin}{detail}"))
    if evidence.places:
        console.print(Text(f"Lines: {places_in_words(evidence.places)}"))


def _print_difference(console: Console, difference: Difference) -> None:
    """Print bytes below each other, so that they can be compared on a narrow terminal."""
    unchanged = difference.found == difference.before
    what = difference_in_words(difference.violation, unchanged=unchanged)
    shown = len(difference.found.split())
    part = f"the first {shown} of " if shown < difference.size else ""
    console.print(Text(f"{difference.place}: {what}, {part}{counted(difference.size, 'byte')}"))
    for name in ("before", "expected", "found"):
        console.print(Text(f"    {name:9} {getattr(difference, name)}"))
    for text in (difference.contents, difference.writer):
        if text:
            console.print(Text(f"    {text}"))
