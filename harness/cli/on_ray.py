"""`harness run --ray`: a campaign whose shards are judged on a cluster, and which ends here."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from typing import Any

import typer

from harness.cli.options import announce
from harness.cli.run_options import RunOptions
from harness.exit_status import FINDINGS, NOT_REACHED, NOTHING_FOUND, Interrupted
from harness.text import counted

SHARDS = 16
"""As many as a small cluster has processors: a node that is lost costs one of them again."""

FLAGS = ("json", "no_shrink", "verbose", "plain")
"""Options of the end of a campaign, which is here, without a value."""

HERE_ALONE = ("known", "baseline", "corpus", "report", *FLAGS)
"""Options of that end; files that they name need not be on the nodes."""

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
    from harness.campaign.on_ray import FOLDERS, Cluster, shards_on_ray

    assert common.ray is not None
    of = common.shards or SHARDS
    shared = {name: value for name, value in options.items() if name not in HERE_ALONE}
    cluster = Cluster(common.ray, common.workers, 1 if common.executor == "cuda" else 0, os.getcwd())
    folders = []
    try:
        with contextlib.redirect_stdout(sys.stderr):  # Ray prints what it says of lost nodes
            for ended in shards_on_ray(shared, of, common.out, cluster):
                folders.append(ended.folder)
                where = "was here" if ended.node is None else f"judged on {ended.node}"
                announce(f"shard {ended.shard} {where}: {len(folders)} of {counted(of, 'shard')}")
    except KeyboardInterrupt:
        kept = f"{len(folders)} of {counted(of, 'shard')} are in '{common.out / FOLDERS}'"
        raise Interrupted(f"{kept}: the same command judges the others") from None
    words = [*map(str, folders), "--out", str(common.out), "-j", str(common.workers)]
    words += [word for text in common.report or () for word in ("--report", text)]
    for name in ("known", "baseline", "corpus"):
        if getattr(common, name) is not None:
            words += [f"--{name}", str(getattr(common, name))]
    words += [f"--{name.replace('_', '-')}" for name in FLAGS if getattr(common, name)]
    root: Any = context.find_root().command
    try:
        root.main(["merge", *words], prog_name="harness", standalone_mode=False)
    except SystemExit as ended:
        if ended.code in (NOTHING_FOUND, FINDINGS, NOT_REACHED):
            # They are in the campaign now. The same command is to judge again, not to find them here.
            shutil.rmtree(common.out / FOLDERS)
        raise
