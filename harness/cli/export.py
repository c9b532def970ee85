"""`harness export`: a finding as a file for somebody who does not have the harness."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli import options


def export(
    file: Annotated[Path, typer.Argument(help="A repro file.")],
    form: Annotated[
        str, typer.Option("--as", metavar="FORM", help="What to write; `harness names forms` lists the forms.")
    ],
    out: Annotated[
        Any,
        options.option(
            "--out",
            parser=options.parse_path,
            metavar="FILE",
            help="File to write, or to replace. Default: standard output.",
        ),
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            "--sweep",
            metavar="TARGETS",
            help="Also replay the file on these targets, such as 'vllm>=0.25', for a form that shows the affected ones "
            "(issue).",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", "-t", help="Target that the file is for. Default: the one that it was found on."),
    ] = None,
) -> None:
    """Write a finding in a form that needs nothing of the harness: a script, a test, a bug report.

    Exit status: 0 written; 2 the form does not take such a file, or cannot show this finding.
    """
    from harness.export.form import Request
    from harness.export.registry import export as exported
    from harness.export.registry import form_for
    from harness.files import replace_file, require_writable_file
    from harness.repro import naming, read_any

    kind, repro = read_any(file)
    if out is not None:
        require_writable_file(out)
    chosen = form_for(form, kind, str(file))
    if sweep is not None and not chosen.sweeps:
        raise typer.BadParameter(f"{form} does not show which releases are affected", param_hint="--sweep")
    swept, affected = ([], "") if sweep is None else _swept(file, sweep)
    request = Request(file.stem, kind, repro, target or repro.origin.target, swept, affected)
    with naming(file):
        text = exported(form, request)
    if out is None:
        sys.stdout.write(text)
    else:
        replace_file(out, text.encode())
        options.announce(f"{out}: {form} of {file}")


def _swept(file: Path, targets: str) -> tuple[list[tuple[str, str]], str]:
    """What the file does on targets, in words, and the range in a sentence."""
    from harness.kernels.targets.selection import select
    from harness.subject.registry import read_file
    from harness.sweep.affected import in_words
    from harness.sweep.sweep import sweep

    chosen = select(targets)
    kind, repro = read_file(file)
    kind.require_installed(chosen)
    kind.announce_downloads(chosen, options.announce)
    (result,) = sweep([(file, kind, repro)], chosen, None, limit=120.0, announce=options.announce)
    return [(answer.target, in_words(answer, result.answers)) for answer in result.answers], result.affected
