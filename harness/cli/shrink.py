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
    target: options.RecordedTargetOption = None,
    executor: ExecutorOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="File to write. Default: FILE with .min before its ending, and nothing if FILE is minimal."
        ),
    ] = None,
    checks: options.ReplayChecksOption = None,
    executions: Annotated[int, typer.Option("--executions", help="Budget of executions.", min=1)] = 1000,
    json: JsonOption = False,
) -> None:
    """Shrink a repro file, keeping its signature and domain.

    Exit status: 1 for success, as the finding is still there; 0 if it is FIXED, 3 if it was skipped.
    """
    from harness.campaign.campaign import shrinking_judge
    from harness.check.worker_process import WorkerProcess
    from harness.cli.sequences import shrink_sequence_file
    from harness.kernels.targets.registry import prepare
    from harness.reports.words import counted
    from harness.repro import ShrinkRecord, naming, read_repro, require_writable_file, write_repro
    from harness.repro.replay import recorded_target, relations_to_ask
    from harness.repro.sequences import read_sequence_repro
    from harness.shrink.shrinker import shrink as run_shrinker

    sequence = read_sequence_repro(file)
    repro = None if sequence is not None else read_repro(file)
    path = out if out is not None else file.with_suffix(".min.json")
    require_writable_file(path)  # before the work, not after it
    if sequence is not None:
        sys.exit(shrink_sequence_file(file, sequence, target, out, executions, json))
    assert repro is not None
    repro = options.with_checks(repro, checks)
    with naming(file):
        chosen = target if target is not None else recorded_target(repro)
    prepare(chosen, options.announce)
    how = options.executor_or_default(executor)
    with naming(file), WorkerProcess(chosen, how, limit=120.0) as worker:
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
    if out is None and (smaller.case, smaller.signature) == (repro.case, repro.signature):
        path = file  # it holds the minimal case already
    else:
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
            f"{path}: {'nothing to take away, ' if path == file else ''}{final.signature}, "
            f"{counted(shrunk.executions, 'execution')} in {shrunk.seconds:.1f} s"
            f"{'' if shrunk.complete else ' (budget used up)'}"
        )
        for counter in shrunk.passes:
            if counter.executions:
                print(f"  {counter.name.replace('_', ' '):22} {counter.accepted:4} of {counter.executions} helped")
    sys.exit(1)
