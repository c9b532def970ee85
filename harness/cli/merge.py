"""`harness merge`: the shards of a campaign as one campaign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import JsonOption, announce, option, parse_path
from harness.cli.run import parse_reports, require_known


def merge(
    context: typer.Context,
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="The folders of all shards.")],
    out: Annotated[
        Any,
        option("--out", parser=parse_path, metavar="FOLDER", help="Folder for the campaign that they make."),
    ] = Path("findings"),
    workers: Annotated[
        int | None, typer.Option("--workers", "-j", help="Worker processes.", min=1, max=256, metavar="N")
    ] = None,
    json: JsonOption = False,
    no_shrink: Annotated[bool, typer.Option("--no-shrink", help="Keep findings as they were drawn.")] = False,
    report: Annotated[list[str] | None, typer.Option("--report", metavar="NAME=FILE", help="As `harness run`.")] = None,
    known: Annotated[Path | None, typer.Option("--known", metavar="FILE", help="As `harness run`.")] = None,
    baseline: Annotated[Path | None, typer.Option("--baseline", metavar="FOLDER", help="As `harness run`.")] = None,
    corpus: Annotated[Path | None, typer.Option("--corpus", metavar="FOLDER", help="As `harness run`.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="As `harness run`.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="As `harness run`.")] = False,
) -> None:
    """Put the shards of a campaign together, and end it as one run of all cases ends.

    The first case of each finding is judged again, so the target has to be here. With --cases, cases that no shard
    judged are judged too."""
    from harness.campaign.earlier import moved
    from harness.campaign.merging import merge as put_together
    from harness.files import NotSaved

    parse_reports(report or (), out)  # refused before anything is written
    before = {"--known": known, "--baseline": baseline, "--corpus": corpus}
    require_known(before, out)
    try:
        merged = put_together(folders, out)
    except NotSaved as not_saved:
        raise not_saved.error from not_saved
    for aside in merged.aside:
        announce(moved(aside.parent, aside))
    for text in merged.notices:
        announce(text)
    more = [word for text in report or () for word in ("--report", text)]
    more += [word for name, path in before.items() if path is not None for word in (name, str(path))]
    more += ["--json"] * json + ["--no-shrink"] * no_shrink + ["--verbose"] * verbose + ["--plain"] * plain
    if workers is not None:
        more += ["-j", str(workers)]
    if merged.options.get("cases") is None:
        more += ["--budget", "0"]
    root = context.find_root().command
    root.main(["run", "--resume", str(out), *more], prog_name="harness", standalone_mode=False)
