"""`harness sweep`: which releases does a finding affect?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.case import InvalidCase
from harness.cli import options
from harness.cli.options import JsonOption, RecordedExecutorOption, option, parse_seconds
from harness.exit_status import Interrupted
from harness.refusal import Refusal
from harness.subject.registry import AnySubject


def sweep(
    files: Annotated[list[Path], typer.Argument(help="Repro files, or folders of them.")],
    targets: Annotated[
        str,
        typer.Option(
            "--targets", "-t", help="Targets, comma-separated; 'vllm>=0.28' represents the releases that it names."
        ),
    ] = "vllm>=0.22",
    base: options.BaseOption = None,
    executor: RecordedExecutorOption = None,
    workers: Annotated[int, typer.Option("--workers", "-j", help="Number of targets at a time.", min=1, max=64)] = 1,
    case_limit: Annotated[
        float,
        option(
            "--case-limit",
            parser=parse_seconds,
            metavar="TIME",
            help="Maximum time for one operation, or one step sequence, before it counts as a hang.",
        ),
    ] = 120.0,
    vary: Annotated[
        bool,
        typer.Option(
            "--vary",
            help="Try step sequences with other drafting methods and with default options, too: a target passes if "
            "none of them fails.",
        ),
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    json: JsonOption = False,
) -> None:
    """Replay repro files on many targets: FAILED, FIXED, NOT APPLICABLE or ERROR for each, and the affected range.

    Files may hold kernel cases or step sequences; the latter apply to targets whose scheduler can be driven.

    Tables say NOT AFFECTED instead of FIXED if no older release fails. That is known only at the end: until then such a
    target "does not fail". PASSES is said of a step sequence without --vary: these events do not fail there, but the
    same issue may show in another form. --json has only the four words.

    Of step sequences it is also said on which targets they fail on the default runner, and at default options.
    Each release that is not in the cache is downloaded first (several 100 MB), of which a few MB are kept.

    Each answer is reported as soon as it is known, and Ctrl-C prints the table of the answers so far.

    Exit status: 1 if any failed, else 4 or 2 if a target could not be asked, 3 if nothing applied, else 0.
    """
    if markdown and json:
        raise typer.BadParameter("--markdown and --json exclude each other")
    from harness.kernels.targets.selection import select
    from harness.reports import swept as reporting
    from harness.subject.registry import read_file
    from harness.sweep import sweep as sweeping

    chosen = select(targets)
    options.require_base(base, chosen)
    swept = [(file, *read_file(file)) for file in _files(files)]
    _prepare(list(dict.fromkeys(kind for _, kind, _ in swept)), chosen)
    try:
        results = sweeping.sweep(
            swept,
            chosen,
            None if executor is None else options.executor_or_default(executor),
            base=base,
            limit=case_limit,
            workers=workers,
            vary=vary,
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


def _prepare(kinds: list[type[AnySubject]], targets: Sequence[str]) -> None:
    """Announce once, not for each target, what cannot be judged here, and how much is downloaded. Raises Refusal if
    nothing can be judged."""
    refused = 0
    for kind in kinds:
        try:
            kind.require_installed(targets)
        except Refusal as missing:
            refused += 1
            if refused == len(kinds):
                raise
            options.announce(str(missing))
        kind.announce_downloads(targets, options.announce)


def _files(paths: list[Path]) -> list[Path]:
    """The named files, and the repro files directly in the named folders. Raises InvalidCase."""
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
