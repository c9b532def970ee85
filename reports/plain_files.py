"""Human-readable reports of files of any subject: what was found, and whether it is still there."""

from __future__ import annotations

from pathlib import Path

from harness.reports.console import printable
from harness.repro import AnyRepro
from harness.subject.subject import Replayed


def print_file(file: Path, repro: AnyRepro) -> None:
    """Print what was found, where, and its evidence."""
    lines = [f"{file}: {repro.signature}, found on {repro.origin.target}", f"  {repro.evidence.summary}"]
    print(printable("\n".join([*lines, *(f"    {detail}" for detail in repro.evidence.details)])))


def print_replayed(file: Path, repro: AnyRepro, result: Replayed) -> None:
    """Print FAILED / FIXED / SKIPPED on the first line, then the reason."""
    print(printable(f"{result.answer}: {file} on {result.target}\n  {result.summary or result.reason or ''}".rstrip()))
