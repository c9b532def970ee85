"""`harness replay`: is the finding still there?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from harness.case.problem import InvalidCase
from harness.cli import options
from harness.cli.options import ExecutorOption, JsonOption
from harness.exit_status import worst


def replay(
    file: Annotated[Path, typer.Argument(help="A repro file, a file that holds a case, or a folder of these.")],
    target: options.RecordedTargetOption = None,
    executor: ExecutorOption = None,
    case_limit: options.CaseLimitOption = None,
    checks: options.ReplayChecksOption = None,
    json: JsonOption = False,
) -> None:
    """Run a repro file's case again: FAILED (status 1), FIXED (0; a case without a finding: PASSED), or SKIPPED with
    its reason (3)."""
    from harness.cli.cases import plain_cases, replay_cases
    from harness.kernels.targets.registry import prepare

    cases = plain_cases(file)
    statuses = []
    if cases is not None:
        chosen = options.target_or_default(target)
        prepare(chosen, options.announce)
        how = options.executor_or_default(executor)
        statuses.append(replay_cases(cases, chosen, how, options.case_seconds(case_limit, how), json))
    for repro in _repros(file, cases or []):
        statuses.append(_replay_repro(repro, target, executor, case_limit, checks, json))
    sys.exit(worst(statuses))


def _repros(path: Path, cases: list[Path]) -> list[Path]:
    """What a path names beside plain cases: itself, or the files in a folder."""
    if not path.is_dir():
        return [] if cases else [path]
    files = [file for file in sorted(path.glob("*.json")) if file not in cases]
    if not files and not cases:
        raise InvalidCase(f"{path}: no repro file in this folder")
    return files


def _replay_repro(
    file: Path, target: str | None, executor: str | None, case_limit: str | None, checks: str | None, json: bool
) -> int:
    """Replay one repro file; the exit status. Raises InvalidCase, and what workers do."""
    from harness.cli.sequences import replay_sequence
    from harness.kernels.targets.registry import prepare
    from harness.reports.replayed import print_replayed
    from harness.repro import naming, read_repro
    from harness.repro import replay as replaying
    from harness.repro.sequences import read_sequence_repro

    sequence = read_sequence_repro(file)
    if sequence is not None:
        limit = None if case_limit is None else options.parse_seconds(case_limit)
        return replay_sequence(file, sequence, target, json, executor, limit)
    repro = options.with_checks(read_repro(file), checks)
    with naming(file):
        chosen = target if target is not None else replaying.recorded_target(repro)
    prepare(chosen, options.announce)
    how = options.executor_or_default(executor)
    with naming(file):
        result = replaying.replay(repro, chosen, how, options.case_seconds(case_limit, how))
    if json:
        print(msgspec.json.encode({"file": str(file), **msgspec.to_builtins(result)}).decode())
    else:
        print_replayed(file, repro, result)
    return result.exit_status
