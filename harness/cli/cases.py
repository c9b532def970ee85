"""Replaying plain kernel cases, such as those that sequences write: does one fail on a target?

In addition to repro files there are files that hold only a case, because nothing was found in it. A folder of them is
judged in one go."""

from __future__ import annotations

from pathlib import Path

import msgspec

from harness.case import Case, InvalidCase, decode_case
from harness.cli import options
from harness.exit_status import worst
from harness.files import text_of
from harness.kernel_cases.subject import case_seconds
from harness.kernel_cases.worker import CaseWorker
from harness.kernels.targets.registry import prepare
from harness.repro import MAX_BYTES, naming
from harness.subject.subject import Setting
from harness.text import counted


class _Kind(msgspec.Struct):
    program: msgspec.Raw
    layout: msgspec.Raw


def plain_cases(path: Path) -> list[Path] | None:
    """The files with plain cases that a path names: itself, or those in a folder. None if it is something else."""
    if path.is_dir():
        return [file for file in sorted(path.glob("*.json")) if _is_case(file)] or None
    return [path] if _is_case(path) else None


def _is_case(path: Path) -> bool:
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return False
        msgspec.json.decode(text_of(path), type=_Kind)
    except (OSError, msgspec.DecodeError, RecursionError, ValueError):
        return False
    return True


def _read(path: Path) -> Case:
    try:
        return decode_case(text_of(path))
    except InvalidCase as error:
        raise InvalidCase(f"{path}: not a valid case: {error}") from error


def replay_cases(files: list[Path], setting: Setting, json: bool) -> int:
    """Judge plain cases: 1 if one fails, else 3 if one is skipped, else 0. Raises InvalidCase, and what workers do."""
    statuses = []
    operations = 0
    target, executor = options.target_or_default(setting.target), options.executor_or_default(setting.executor)
    prepare(target, options.announce)
    limit = case_seconds(executor) if setting.limit is None else setting.limit
    with CaseWorker(target, executor, limit=limit) as worker:
        options.wait_ready(worker)
        for file in files:
            case = _read(file)
            if setting.checks is not None:
                execution = msgspec.structs.replace(case.execution, checks=setting.checks)
                case = msgspec.structs.replace(case, execution=execution)
            with naming(file):
                outcome = worker.check(case, ())
            skips = [verdict for verdict in outcome.verdicts if verdict.status == "skip"]
            answer = "FAILED" if outcome.failure is not None else "SKIPPED" if skips else "PASSED"
            statuses.append({"FAILED": 1, "SKIPPED": 3, "PASSED": 0}[answer])
            operations += len(outcome.verdicts)
            if json:
                answered = {"file": str(file), "answer": answer, "target": target, "executor": executor}
                print(msgspec.json.encode({**answered, "outcome": msgspec.to_builtins(outcome)}).decode())
            elif answer != "PASSED" or len(files) == 1:
                print(f"{answer} {file} on {target} ({executor})")
                failure = outcome.failure
                if failure is not None and failure.evidence is not None:
                    print("\n".join([f"  {failure.evidence.summary}", *(f"    {d}" for d in failure.evidence.details)]))
                for verdict in skips:
                    print(f"  {verdict.operation} skipped: {verdict.reason}: {verdict.detail}")
    if not json and len(files) > 1:
        print(
            f"{counted(len(files), 'case')}, {counted(operations, 'operation')} on {target} ({executor}): "
            f"{statuses.count(1)} failed, {statuses.count(3)} skipped"
        )
    return worst(statuses)
