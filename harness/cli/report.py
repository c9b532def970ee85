"""`harness report`: reports of campaigns that are over, from their folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.run import named_reports, require_reports


def report(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a campaign that has ended.")],
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="A page for people.")] = None,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="JUnit XML.")] = None,
    sarif: Annotated[Path | None, typer.Option("--sarif", metavar="FILE", help="SARIF 2.1.0.")] = None,
    markdown: Annotated[Path | None, typer.Option("--markdown", metavar="FILE", help="Markdown.")] = None,
    others: Annotated[
        list[str] | None, typer.Option("--report", metavar="NAME=FILE", help="Any report of `harness run`.")
    ] = None,
) -> None:
    """Write reports of what came of a campaign. Nothing is run, and no target is needed."""
    from harness.reports.written.kept import results_in
    from harness.reports.written.registry import write_reports

    files = {"html": html, "junit": junit, "sarif": sarif, "markdown": markdown}
    named = [(name, str(file)) for name, file in files.items() if file is not None]
    asked = require_reports([*named, *named_reports(others or ())], folder)
    if not asked:
        raise typer.BadParameter("no report is asked for: give --html FILE, or another one")
    write_reports(asked, results_in(folder))
