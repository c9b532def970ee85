"""`harness run --ray`: a campaign whose shards are judged on a cluster, and which ends here."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import typer

from harness.cli.options import announce
from harness.cli.run_options import RunOptions
from harness.exit_status import Interrupted
from harness.text import counted

SHARDS = 16
"""As many as a small cluster has processors: a node that is lost costs one of them again."""

HERE_ALONE = ("known", "baseline", "corpus", "report", "no_shrink", "plain")
"""Options of the end of a campaign, which is here; files that they name need not be on the nodes."""

EXCLUDED = ("shard", "resume", "targets", "fail_fast")


def require_options_of_ray(common: RunOptions) -> None:
    """Raise typer.BadParameter for options that do not go together with `--ray`, or need it."""
    if common.ray is None:
        if common.shards is not None:
            raise typer.BadParameter("--shards is for --ray; --shard I/N judges one of them here")
        return
    for name in EXCLUDED:
        if getattr(common, name):
            more = ": the same command continues with the shards that are missing" if name == "resume" else ""
            raise typer.BadParameter(f"--{name.replace('_', '-')} and --ray exclude each other{more}")


def run_on_ray(context: typer.Context, common: RunOptions, options: dict[str, Any]) -> None:
    """Judge the shards of the campaign with these options, put them together in its folder, and end it there as
    `harness merge` does. Raises Refusal, OSError, and Interrupted."""
    from harness.campaign.earlier import moved
    from harness.campaign.merging import merge
    from harness.campaign.on_ray import FOLDERS, shards_on_ray
    from harness.files import NotSaved

    assert common.ray is not None
    of = common.shards or SHARDS
    shared = {name: value for name, value in options.items() if name not in HERE_ALONE}
    gpus = 1 if common.executor == "cuda" else 0
    folders = []
    try:
        with contextlib.redirect_stdout(sys.stderr):  # Ray prints what it says of lost nodes
            for ended in shards_on_ray(shared, of, common.out, common.ray, common.workers, gpus):
                folders.append(ended.folder)
                where = "was here" if ended.node is None else f"judged on {ended.node}"
                announce(f"shard {ended.shard} {where}: {len(folders)} of {counted(of, 'shard')}")
    except KeyboardInterrupt:
        kept = f"{len(folders)} of {counted(of, 'shard')} are in '{common.out / FOLDERS}'"
        raise Interrupted(f"{kept}: the same command judges the others") from None
    try:
        merged = merge(folders, common.out)
    except NotSaved as not_saved:
        raise not_saved.error from not_saved
    for aside in merged.aside:
        announce(moved(aside.parent, aside))
    for text in merged.notices:
        announce(text)
    more = [word for text in common.report or () for word in ("--report", text)]
    for name in ("known", "baseline", "corpus"):
        if getattr(common, name) is not None:
            more += [f"--{name}", str(getattr(common, name))]
    more += ["--json"] * common.json + ["--no-shrink"] * common.no_shrink + ["--verbose"] * common.verbose
    more += [] if common.cases is not None else ["--budget", "0"]
    root: Any = context.find_root().command
    root.main(["run", "--resume", str(common.out), *more], prog_name="harness", standalone_mode=False)
