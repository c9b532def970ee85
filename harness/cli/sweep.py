"""`harness sweep`: which releases does a finding affect?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.case import InvalidCase
from harness.cli import options
from harness.cli.main import Interrupted
from harness.cli.options import ExecutorOption, JsonOption

if TYPE_CHECKING:
    from harness.repro import Repro
    from harness.repro.sequences import SequenceRepro


def sweep(
    files: Annotated[list[Path], typer.Argument(help="Repro files, or folders of them.")],
    targets: Annotated[
        str,
        typer.Option(
            "--targets", "-t", help="Targets, comma-separated; 'vllm>=0.28' stands for the releases it names."
        ),
    ] = "vllm>=0.22",
    executor: ExecutorOption = None,
    workers: Annotated[int, typer.Option("--workers", "-j", help="Targets at a time.", min=1, max=64)] = 1,
    case_limit: Annotated[
        str,
        typer.Option(
            "--case-limit",
            help="Longest time for one operation, or one step sequence, before it counts as a hang.",
            callback=options.callback(options.parse_seconds),
        ),
    ] = "120s",
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    json: JsonOption = False,
) -> None:
    """Replay repro files on many targets: FAILED, FIXED, NOT APPLICABLE or ERROR for each, and the affected range.

    Files may hold kernel cases or step sequences; the latter apply to targets whose scheduler can be driven.

    Tables say NOT AFFECTED instead of FIXED where no older release fails; --json has the four words alone.
    Each release that is not in the cache is downloaded first (several 100 MB), of which a few MB are kept.

    Each answer is told as soon as it is known, and Ctrl-C prints the table of those.

    Exit status: 1 if any failed, else 4 or 2 if a target could not be asked, 3 if nothing applied, else 0.
    """
    if markdown and json:
        raise typer.BadParameter("--markdown and --json exclude each other")
    from harness.kernels.targets.selection import select
    from harness.reports import swept as reporting
    from harness.repro import sweep as sweeping

    chosen = select(targets)
    repros = [(file, _read(file)) for file in _files(files)]
    _check_packages(chosen, [repro for _, repro in repros])
    _announce_downloads(chosen, [repro for _, repro in repros])
    try:
        results = sweeping.sweep(
            repros,
            chosen,
            options.executor_or_default(executor),
            limit=options.parse_seconds(case_limit),
            workers=workers,
            announce=options.announce,
        )
    except sweeping.SweepInterrupted as interrupted:
        if not json:
            print(reporting.markdown(interrupted.known)) if markdown else reporting.print_table(interrupted.known)
        sys.stdout.flush()
        raise Interrupted("" if json else "the table has what was known by then") from None
    statuses = {result.exit_status for result in results}
    status = next(status for status in (1, 4, 2, 0, 3) if status in statuses)
    if json:
        print(reporting.json_text(results, status))
    elif markdown:
        print(reporting.markdown(results))
    else:
        reporting.print_table(results)
    sys.exit(status)


def _check_packages(targets: Sequence[str], repros: Sequence[Repro | SequenceRepro]) -> None:
    """Tell once, not for each release, what step sequences lack here. Raises UnknownTarget if nothing else was asked
    for."""
    from harness.kernels.targets.base import UnknownTarget
    from harness.kernels.targets.vllm.scheduling.sources import require_packages
    from harness.repro import Repro
    from harness.sequences.sweeping import cannot_be_driven

    kernels = [isinstance(repro, Repro) for repro in repros]
    if all(kernels) or all(cannot_be_driven(target) is not None for target in targets):
        return
    try:
        require_packages()
    except UnknownTarget as missing:
        if not any(kernels):
            raise
        options.announce(str(missing))


def _announce_downloads(targets: Sequence[str], repros: Sequence[Repro | SequenceRepro]) -> None:
    """Kernels and schedulers of a release are kept apart: say how much is to be downloaded of which."""
    from harness.kernels.targets.vllm.scheduling.sources import VLLM_WHOLE
    from harness.repro import Repro
    from harness.sequences.sweeping import cannot_be_driven

    sequences = [repro for repro in repros if not isinstance(repro, Repro)]
    if len(sequences) < len(repros):
        options.announce_downloads(targets)
    if sequences:
        options.announce_downloads([target for target in targets if cannot_be_driven(target) is None], VLLM_WHOLE)


def _read(file: Path) -> Repro | SequenceRepro:
    """Raises InvalidCase."""
    from harness.repro import read_repro
    from harness.repro.sequences import read_sequence_repro

    return read_sequence_repro(file) or read_repro(file)


def _files(paths: list[Path]) -> list[Path]:
    """Files as named, folders as the repro files right inside them. Raises InvalidCase."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.glob("*.json"))
            if not inside:
                raise InvalidCase(f"{path}: no repro files in this folder")
            found += inside
        else:
            found.append(path)
    return found
