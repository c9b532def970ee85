"""`harness shrink`: a smaller repro of the same finding."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from harness.cli import options
from harness.cli.options import ExecutorOption, JsonOption


def shrink(
    file: Annotated[Path, typer.Argument(help="A repro file.")],
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="System under test. Default: the one the file names.")
    ] = None,
    executor: ExecutorOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write. Default: FILE with .min before its ending.")
    ] = None,
    executions: Annotated[int, typer.Option("--executions", help="Budget of executions.", min=1)] = 1000,
    json: JsonOption = False,
) -> None:
    """Shrink a repro file, keeping its signature and domain.

    Exit status: 1 if the finding is still there (and OUT was written), 0 if it is FIXED, 3 if it was skipped.
    """
    from harness.campaign.campaign import shrinking_judge
    from harness.check.worker_process import WorkerProcess
    from harness.cli.sequences import shrink_sequence_file
    from harness.kernels.targets.registry import prepare
    from harness.repro import ShrinkRecord, read_repro, write_repro
    from harness.repro.replay import recorded_target, relations_to_ask
    from harness.repro.sequences import read_sequence_repro
    from harness.shrink.shrinker import shrink as run_shrinker

    sequence = read_sequence_repro(file)
    if sequence is not None:
        sys.exit(shrink_sequence_file(file, sequence, target, out, executions, json))
    repro = read_repro(file)
    chosen = target if target is not None else recorded_target(repro)
    prepare(chosen, options.announce)
    how = options.executor_or_default(executor)
    with WorkerProcess(chosen, how, limit=120.0) as worker:
        worker.wait_ready()
        outcome = worker.check(repro.case, relations_to_ask(repro), sighted=repro.signature.sighted)
        failure = outcome.failure
        if failure is None:
            skipped = any(verdict.status == "skip" for verdict in (*outcome.verdicts, *outcome.relations))
            print(f"{'SKIPPED' if skipped else 'FIXED'}: {file} does not fail on {chosen}", file=sys.stderr)
            sys.exit(3 if skipped else 0)
        assert failure.signature is not None
        judge = shrinking_judge(worker, failure.signature)
        shrunk = run_shrinker(repro.case, outcome, judge, executions)
    final = shrunk.outcome.failure
    assert final is not None
    assert final.signature is not None
    assert final.evidence is not None
    record = ShrinkRecord(executions=shrunk.executions, seconds=round(shrunk.seconds, 3), complete=shrunk.complete)
    smaller = msgspec.structs.replace(
        repro, case=shrunk.case, signature=final.signature, evidence=final.evidence, shrink=record
    )
    path = out if out is not None else file.with_suffix(".min.json")
    write_repro(path, smaller)
    if json:
        summary = {
            "repro": str(path),
            "signature": str(final.signature),
            "shrink": msgspec.to_builtins(record),
            "passes": msgspec.to_builtins(shrunk.passes),
        }
        print(msgspec.json.encode(summary).decode())
    else:
        print(
            f"{path}: {final.signature}, {shrunk.executions} executions in {shrunk.seconds:.1f} s"
            f"{'' if shrunk.complete else ' (budget used up)'}"
        )
        for counter in shrunk.passes:
            if counter.executions:
                print(f"  {counter.name.replace('_', ' '):22} {counter.accepted:4} of {counter.executions} helped")
    sys.exit(1)
