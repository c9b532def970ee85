"""The registry of written reports: results for other programs, in addition to what a run prints.

`--report NAME=FILE` asks for one. Other packages add theirs through the entry-point group
`mamba_migration_harness.reports`, whose entries name a WrittenReport.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from harness.campaign.events import CampaignFinished, Event
from harness.files import replace_file
from harness.refusal import Refusal
from harness.registry import Registry, found_at
from harness.reports.registry import Handler
from harness.reports.written.result import Result, broken_off, result_of


@dataclass(frozen=True)
class WrittenReport:
    """`place` (`module:function`) makes the text of the file from all results, or delivers them where there is none;
    `check` raises Refusal where that cannot be done."""

    name: str
    about: str
    place: str
    takes_file: bool = True
    check: str | None = None


class UnknownReport(Refusal):
    """A report that does not exist."""


OURS = (
    WrittenReport("html", "a page for people, with pictures, in one file", "harness.reports.written.html:html"),
    WrittenReport("junit", "JUnit XML, which CI systems show", "harness.reports.written.junit:junit"),
    WrittenReport("sarif", "SARIF 2.1.0, which code hosts and editors show", "harness.reports.written.sarif:sarif"),
    WrittenReport("markdown", "a summary as Markdown", "harness.reports.written.github:markdown"),
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
    well, so that no report is green without it.

    Raises Refusal before anything runs where a report cannot be made, and OSError if one cannot be written, after the
    others.
    """
    make = [(_maker(report), path) for report, path in asked]
    results: list[Result] = []

    def handle(event: Event) -> None:
        if isinstance(event, CampaignFinished):
            results.append(result_of(event.summary))

    try:
        yield handle
    except BaseException as error:
        results.append(broken_off(error))
        _write(make, results)
        raise
    _write(make, results)


def write_reports(asked: Sequence[Asked], results: Sequence[Result]) -> None:
    """Write reports of results that are there. Raises as `written_reports`."""
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
