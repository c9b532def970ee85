"""`harness demo`: the main job in about a minute, for first-time users."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import options
from harness.cli.case_options import COPIES
from harness.cli.options import ExecutorOption
from harness.cli.run import follow
from harness.exit_status import FINDINGS, Interrupted
from harness.subject.registry import AnySubject

if TYPE_CHECKING:
    from harness.campaign.settings import Settings

PLANTED = "builtin+wrong-group"

NEXT = ("harness run --target path:../vllm --fail-fast", "harness run --help", "harness names")
"""Commands to type after it."""


def demo(
    target: Annotated[str, typer.Option("--target", "-t", help="The real kernels to fuzz.")] = "vllm==0.33.0",
    executor: ExecutorOption = None,
    seconds: Annotated[int, typer.Option("--seconds", help="How long to fuzz them.", min=1)] = 25,
    out: Annotated[
        Any, options.option("--out", parser=options.parse_path, metavar="FOLDER", help="Folder for repro files.")
    ] = Path("findings/demo"),
) -> None:
    """Find, shrink, show and replay a planted bug; then fuzz the kernels of a vLLM release.

    Exit status: 0 if the planted bug was found and replays and the release's kernels have no finding, 1 if they have
    one, 4 if the planted bug was missed.
    """
    from harness.campaign.settings import Settings
    from harness.engines.random import Recipe
    from harness.files import require_writable
    from harness.kernel_cases.subject import KernelCases, case_seconds
    from harness.kernels.targets.registry import prepare
    from harness.reports.replayed import print_replayed
    from harness.reports.shown import print_repro
    from harness.reports.terminal import print_lines
    from harness.repro import read_repro
    from harness.subject.summary import Line
    from harness.worker.losses import WorkerError

    require_writable(out)
    how = options.executor_or_default(executor)
    prepare(target, options.announce)
    recipe = Recipe(
        seed=0,
        domains=("reachable",),
        operations=COPIES,
        scale="small" if how == "interpreter" else "full",
    )
    print(f"1. A fault is planted in our own kernels ({PLANTED}: every group reads group 0's table): find it.")
    print("   This stops at the first finding (as with --fail-fast), long before all cases have run.\n")
    planted = KernelCases(target=PLANTED, executor=how, limit=case_seconds(how), recipe=recipe)
    folder = out / "planted"
    if _followed(planted, Settings(out=folder, cases=300, fail_fast=True)) != FINDINGS:
        raise WorkerError(f"the planted fault of {PLANTED} was not found")
    file = max(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
    repro = read_repro(file)
    print(f"\n2. What the minimal repro says (harness show {file}):\n")
    print_repro(file, repro)
    print(f"\n3. Replay it in a fresh process (harness replay {file}):\n")
    with planted.new_worker() as worker:
        options.wait_ready(worker)
        replayed = planted.replayed(repro, planted.judge_file(worker, repro))
    print_replayed(file, repro, replayed)
    if replayed.answer != "FAILED" or not replayed.same:
        raise WorkerError(f"{file} does not replay as the finding that it was written for: {replayed.answer}")
    print(f"\n4. Fuzz the real kernels of {target} for {seconds} s.\n")
    real = KernelCases(target=target, executor=how, limit=case_seconds(how), recipe=recipe)
    status = _followed(real, Settings(out=out / "release", seconds=float(seconds)))
    print("\n5. What you can do next: test your own checkout, find all that one command can do, read on.\n")
    print_lines(Line("next", text) for text in NEXT)
    sys.exit(status)


def _followed(subject: AnySubject, settings: Settings) -> int:
    """The exit status of a campaign. Raises Interrupted without a hint to resume: a demonstration starts again."""
    try:
        return follow(subject, settings, "terminal")
    except Interrupted:
        raise Interrupted(f"what was found is in '{settings.out}'") from None
