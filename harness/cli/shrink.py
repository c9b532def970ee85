"""`harness shrink`: a smaller repro of the same finding."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from harness.cli import options
from harness.cli.options import JsonOption, RecordedExecutorOption


def shrink(
    file: Annotated[Path, typer.Argument(help="A repro file.")],
    target: options.RecordedTargetOption = None,
    executor: RecordedExecutorOption = None,
    out: Annotated[
        Any,
        options.option(
            "--out",
            parser=options.parse_path,
            metavar="FILE",
            help="File to write. Default: FILE with .min before its ending, in the same folder; nothing is written if "
            "FILE is minimal.",
        ),
    ] = None,
    checks: options.ReplayChecksOption = None,
    case_limit: options.CaseLimitOption = None,
    memory_limit: options.MemoryLimitOption = None,
    executions: Annotated[int, typer.Option("--executions", help="Budget of executions.", min=1)] = 1000,
    json: JsonOption = False,
) -> None:
    """Shrink a repro file, keeping its signature and domain.

    Exit status: 1 for success, since the finding is still there; 0 if it is FIXED, 3 if it was skipped.
    """
    from harness.campaign.findings import record_of
    from harness.files import require_writable_file
    from harness.repro import naming, write_repro
    from harness.shrink.driver import shrink as run_shrinker
    from harness.subject.registry import read_file
    from harness.subject.subject import Setting
    from harness.text import counted

    kind, recorded = read_file(file)
    path = out if out is not None else file.with_suffix(".min.json")
    require_writable_file(path)  # check this before the work, not after it
    # A kernel compiles while the first case runs, on any executor: the usual limit is for campaigns.
    limit = 120.0 if case_limit is None else case_limit
    setting = Setting(target=target, executor=executor, limit=limit, checks=checks, announce=options.announce)
    with naming(file):
        subject, repro = kind.of_file(recorded, setting)
        with subject.new_worker() as worker:
            worker.limit_memory(memory_limit)
            options.wait_ready(worker)
            case, result = subject.case_of(repro), subject.judge_file(worker, repro)
            replayed = subject.replayed(repro, result)
            if replayed.answer != "FAILED":
                reason = f": {replayed.reason}" if replayed.answer == "SKIPPED" and replayed.reason else ""
                print(
                    f"{replayed.answer}: {file} does not fail on {subject.target}{reason}",
                    file=sys.stderr,
                )
                sys.exit(replayed.exit_status)
            signature = str(replayed.signature)
            key = subject.key_of(signature, subject.classify(worker, case, signature))
            shrunk = run_shrinker(case, result, subject.plan(worker, key, result), executions)
            concluded = subject.conclude(worker, key, shrunk)
            if concluded is not None:
                concluded = subject.explain(worker, shrunk.case, concluded[0], ()), concluded[1]
    if concluded is None:
        print(f"{file}: its smallest form does not show the finding a second time", file=sys.stderr)
        sys.exit(3)
    final, found = concluded
    smaller = subject.smaller(repro, shrunk.case, final, found.issue, record_of(shrunk))
    same = subject.encode(subject.case_of(smaller)) == subject.encode(kind.case_of(recorded))
    if out is None and same and (smaller.signature, smaller.issue) == (recorded.signature, recorded.issue):
        path = file  # it holds the minimal case already
    else:
        write_repro(path, smaller)
    if json:
        summary = {
            "repro": str(path),
            "signature": found.signature,
            "shrink": msgspec.to_builtins(smaller.shrink),
            "passes": msgspec.to_builtins(shrunk.passes),
        }
        print(msgspec.json.encode(summary).decode())
    else:
        print(
            f"{path}: {'nothing to take away, ' if path == file else ''}{found}, "
            f"{counted(shrunk.executions, 'execution')} in {shrunk.seconds:.1f} s"
            f"{'' if shrunk.complete else ' (budget exhausted)'}"
        )
        if any(counter.executions for counter in shrunk.passes):
            print("  what was tried, and how many of the smaller cases still showed the finding:")
        for counter in shrunk.passes:
            if counter.executions:
                print(f"  {counter.name.replace('_', ' '):22} {counter.accepted:4} of {counter.executions} kept")
    sys.exit(1)
