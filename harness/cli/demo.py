"""`harness demo`: the main job in about a minute, for whoever sees the tool for the first time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options
from harness.cli.options import ExecutorOption
from harness.cli.run import follow

PLANTED = "builtin+wrong-group"


def demo(
    target: Annotated[str, typer.Option("--target", "-t", help="The real kernels to fuzz.")] = "vllm==0.33.0",
    executor: ExecutorOption = None,
    seconds: Annotated[int, typer.Option("--seconds", help="How long to fuzz them.", min=1)] = 25,
    out: Annotated[Path, typer.Option("--out", help="Folder for repro files.")] = Path("findings/demo"),
) -> None:
    """Find, shrink, show and replay a planted bug; then fuzz the kernels of a vLLM release.

    Exit status: 0 if the planted bug was found and replays and the release's kernels gave no finding, 1 if they gave
    one, 4 if the planted bug was missed.
    """
    from harness.campaign.campaign import Settings
    from harness.check.worker_process import WorkerError
    from harness.engines.random import Recipe
    from harness.kernels.targets.registry import prepare
    from harness.reports.replayed import print_replayed
    from harness.reports.shown import print_repro
    from harness.repro import read_repro, require_writable
    from harness.repro import replay as replaying

    require_writable(out)
    how = options.executor_or_default(executor)
    prepare(target, options.announce)
    recipe = Recipe(
        seed=0,
        domains=("reachable",),
        operations=options.DEFAULT_OPERATIONS,
        scale="small" if how == "interpreter" else "full",
    )
    print(f"1. A fault is planted in our own kernels ({PLANTED}: every group reads group 0's table): find it.\n")
    planted = Settings(target=PLANTED, executor=how, recipe=recipe, out=out, cases=300, fail_fast=True)
    if follow(planted, "terminal") != 1:
        raise WorkerError(f"the planted fault of {PLANTED} was not found")
    file = max(out.glob("*.json"), key=lambda path: path.stat().st_mtime)
    repro = read_repro(file)
    print(f"\n2. What the minimal repro says (harness show {file}):\n")
    print_repro(file, repro)
    print(f"\n3. Replay it in a fresh process (harness replay {file}):\n")
    result = replaying.replay(repro, PLANTED, how, 120.0)
    print_replayed(file, repro, result)
    if result.answer != "FAILED" or not result.same:
        raise WorkerError(f"{file} does not replay as the finding that it was written for: {result.answer}")
    print(f"\n4. Fuzz the real kernels of {target} for {seconds} s.\n")
    real = Settings(target=target, executor=how, recipe=recipe, out=out, budget_seconds=float(seconds))
    sys.exit(follow(real, "terminal"))
