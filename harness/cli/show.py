"""`harness show`: a repro in human words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def show(file: Annotated[Path, typer.Argument(help="A repro file.")]) -> None:
    """Tell a repro file in human words: tables, requests, what moves where, expected against found."""
    from harness.reports.shown import print_repro
    from harness.reports.shown_sequence import print_sequence
    from harness.repro import naming, read_repro
    from harness.repro.sequences import read_sequence_repro

    sequence = read_sequence_repro(file)
    if sequence is not None:
        print_sequence(file, sequence)
        return
    with naming(file):
        print_repro(file, read_repro(file))
