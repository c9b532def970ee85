"""`harness show`: a repro file in human-readable form."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def show(file: Annotated[Path, typer.Argument(help="A repro file.")]) -> None:
    """Print a repro file for people: tables, requests, what moves where, expected against found; and a picture."""
    from harness.reports.drawn import print_picture
    from harness.reports.registry import file_report
    from harness.repro import naming
    from harness.subject.registry import read_file

    subject, repro = read_file(file)
    with naming(file):
        file_report(subject.name).show(file, repro)
        print_picture(repro)
