"""The registries of reports: handlers of campaign events, and the reports on files of each subject."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, cast

from harness.campaign.events import Event
from harness.registry import found_at
from harness.subject.subject import Replayed

Handler = Callable[[Event], None]

_REPORTS = {
    "terminal": "harness.reports.terminal:terminal_report",
    "verbose": "harness.reports.terminal:verbose_report",
    "plain": "harness.reports.terminal:plain_report",
    "plain-verbose": "harness.reports.terminal:plain_verbose_report",
    "json": "harness.reports.json_summary:json_report",
}

_FILES = {
    "case": ("harness.reports.shown:print_repro", "harness.reports.replayed:print_replayed"),
    "sequence": (
        "harness.reports.shown_sequence:print_sequence",
        "harness.reports.shown_sequence:print_replayed_sequence",
    ),
    "engine": (
        "harness.reports.shown_sequence:print_sequence",
        "harness.reports.shown_sequence:print_replayed_sequence",
    ),
}
"""By subject: what shows a file, and what prints the answer of a replay."""

_PLAIN = ("harness.reports.plain_files:print_file", "harness.reports.plain_files:print_replayed")
"""For subjects without a report of their own."""


class FileReport(NamedTuple):
    """How a file and its replay are printed."""

    show: Callable[[Path, Any], None]
    replayed: Callable[[Path, Any, Replayed], None]


def reporter(name: str) -> AbstractContextManager[Handler]:
    """A report, to be entered for the duration of a campaign."""
    return cast(AbstractContextManager[Handler], found_at(_REPORTS[name])())


def file_report(subject: str) -> FileReport:
    """The report of files of a subject."""
    return FileReport(*map(found_at, _FILES.get(subject, _PLAIN)))
