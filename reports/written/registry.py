"""The registry of written reports: results for other programs, in addition to what a run prints.

`--report NAME=FILE` asks for one. Other packages add theirs through the entry-point group
`mamba_migration_harness.reports`, whose entries name a WrittenReport. Most are made of the results, when all campaigns
of a command are over; others follow the events of the campaigns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from harness.campaign.events import CampaignFinished, Event
from harness.files import replace_file
from harness.refusal import Refusal
from harness.registry import Registry, found_at
from harness.reports.registry import Handler
from harness.reports.written.result import Result, broken_off, result_of


@dataclass(frozen=True)
class WrittenReport:
    """`place` (`module:function`) makes the text of the file from all results, or delivers them where there is none;
    `check` raises Refusal where that cannot be done.

    One that `follows` is a context manager, called with the path of its file, or with nothing: it is entered before the
    first campaign, and yields a handler of events (harness.campaign.events)."""

    name: str
    about: str
    place: str
    takes_file: bool = True
    check: str | None = None
    follows: bool = False


class UnknownReport(Refusal):
    """A report that does not exist."""


OURS = (
    WrittenReport("html", "a page for people, with pictures, in one file", "harness.reports.written.html:html"),
    WrittenReport("junit", "JUnit XML, which CI systems show", "harness.reports.written.junit:junit"),
    WrittenReport("sarif", "SARIF 2.1.0, which code hosts and editors show", "harness.reports.written.sarif:sarif"),
    WrittenReport("markdown", "a summary as Markdown", "harness.reports.written.github:markdown"),
    WrittenReport(
        "jsonl",
        "JSON lines: each event of a run as it happens",
        "harness.reports.written.json_lines:json_lines",
        follows=True,
    ),
    WrittenReport(
        "github",
        "annotations on the lines of a change, and a summary of the job; no FILE",
        "harness.reports.written.github:report_to_job",
        takes_file=False,
        check="harness.reports.written.github:require_job",
    ),
)

REGISTRY: Registry[WrittenReport] = Registry(
    WrittenReport, "report", "mamba_migration_harness.reports", OURS, UnknownReport
)

Asked = tuple[WrittenReport, Path | None]
Maker = Callable[[Sequence[Result]], str | None]


@contextmanager
def written_reports(asked: Sequence[Asked]) -> Iterator[Handler]:
    """Collect the results of campaigns, and write the reports when all are over. What ends them early is a result as
    well, so that no report is green without it. Reports that follow get each event as it happens.

    Raises Refusal before anything runs where a report cannot be made, and OSError if one cannot be written, after the
    others.
    """
    make = [(_maker(report), path) for report, path in asked if not report.follows]
    following = [_Following(_maker(report), path) for report, path in asked if report.follows]
    results: list[Result] = []

    def handle(event: Event) -> None:
        for one in following:
            one.handle(event)
        if isinstance(event, CampaignFinished):
            results.append(result_of(event.summary))

    failed: OSError | None = None
    try:
        for one in following:
            one.enter()
        yield handle
    except BaseException as error:
        for one in following:
            one.leave(error)
        results.append(broken_off(error))
        _write(make, results)
        raise
    for one in following:
        one.leave(None)
        failed = failed or one.failed
    _write(make, results)
    if failed is not None:
        raise failed


class _Following:
    """A report that follows. After the first OSError it gets no more events: the campaign continues without it."""

    def __init__(self, make: Callable[..., Any], path: Path | None) -> None:
        self._manager: AbstractContextManager[Handler] = make() if path is None else make(path)
        self._handle: Handler | None = None
        self.failed: OSError | None = None

    def enter(self) -> None:
        self._handle = self._manager.__enter__()

    def handle(self, event: Event) -> None:
        if self._handle is None or self.failed is not None:
            return
        try:
            self._handle(event)
        except OSError as error:
            self.failed = error

    def leave(self, error: BaseException | None) -> None:
        """End it; with an error, if something ended the campaigns early."""
        if self._handle is None:
            return
        self._handle, ends = None, self.failed or error
        try:
            self._manager.__exit__(None if ends is None else type(ends), ends, None)
        except BaseException as raised:
            if raised is ends:
                return
            if not isinstance(raised, OSError):
                raise
            self.failed = self.failed or raised


def write_reports(asked: Sequence[Asked], results: Sequence[Result]) -> None:
    """Write reports of results that are there. Raises as `written_reports`, and Refusal for one that follows."""
    for report, _ in asked:
        if report.follows:
            raise Refusal(f"--report {report.name} follows a run, and cannot be written when it is over")
    _write([(_maker(report), path) for report, path in asked], results)


def _write(make: Sequence[tuple[Maker, Path | None]], results: Sequence[Result]) -> None:
    failed: OSError | None = None
    for text_of, path in make:
        try:
            text = text_of(results)
            if path is not None:
                replace_file(path, cast(str, text).encode())
        except OSError as error:
            failed = error
    if failed is not None:
        raise failed


def _maker(report: WrittenReport) -> Maker:
    if report.check is not None:
        found_at(report.check)()
    try:
        return cast(Maker, found_at(report.place))
    except ModuleNotFoundError as error:
        raise Refusal(f"--report {report.name} needs the package {error.name}, which is not installed") from error
