"""`harness show`: repro files in human-readable form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from harness.case import InvalidCase


def show(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Repro files, or folders of them.")],
) -> None:
    """Print repro files for people: tables, requests, what moves where, expected against found; and a picture."""
    from harness.reports.drawn import print_picture
    from harness.reports.registry import file_report
    from harness.repro import naming
    from harness.subject.registry import read_file

    read = [(file, *read_file(file)) for named in files for file in _in(named)]  # all, before the first is printed
    for number, (file, subject, repro) in enumerate(read):
        if number:
            print(f"\n{'=' * 80}\n")
        with naming(file):
            file_report(subject.name).show(file, repro)
            print_picture(repro)


def _in(path: Path) -> Iterator[Path]:
    """The file, or those of a folder by name. Raises InvalidCase for a folder without any."""
    if not path.is_dir():
        yield path
        return
    files = sorted(path.glob("*.json"))
    if not files:
        raise InvalidCase(f"{path}: no repro file in this folder")
    yield from files
