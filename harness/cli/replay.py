"""`harness replay`: is the finding still there?"""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import msgspec
import typer

from harness.case import InvalidCase
from harness.cli import options
from harness.cli.options import JsonOption, RecordedExecutorOption
from harness.exit_status import worst
from harness.text import counted

if TYPE_CHECKING:
    from harness.repro import AnyRepro
    from harness.subject.registry import AnySubject
    from harness.subject.replaying import Replayer
    from harness.subject.subject import Replayed


def replay(
    file: Annotated[Path, typer.Argument(help="A repro file, a file that holds a case, or a folder of these.")],
    target: options.RecordedTargetOption = None,
    base: options.BaseOption = None,
    executor: RecordedExecutorOption = None,
    case_limit: options.CaseLimitOption = None,
    memory_limit: options.MemoryLimitOption = None,
    checks: options.ReplayChecksOption = None,
    json: JsonOption = False,
) -> None:
    """Run a repro file's case again: FAILED (status 1), FIXED (0; a case without a finding: PASSED), or SKIPPED with
    its reason (3)."""
    from harness.cli.cases import plain_cases, replay_cases
    from harness.subject.registry import read_file
    from harness.subject.replaying import replaying
    from harness.subject.standing import Answer
    from harness.subject.subject import Setting

    cases = plain_cases(file)
    options.require_base(base, [target or "a file's own target"])
    setting = Setting(
        target=target,
        base=base,
        executor=executor,
        limit=case_limit,
        memory=memory_limit,
        checks=checks,
        announce=options.announce,
    )
    repros = [
        (repro, *read_file(repro)) for repro in _repros(file, cases or [])
    ]  # all are read before the first one runs
    statuses = [] if cases is None else [replay_cases(cases, setting, json)]
    alone = len(repros) == 1
    with replaying(setting) as replayer:
        results = [_replay_file(*repro, replayer, json, picture=alone) for repro in repros]
    if len(results) > 1 and not json:
        answers = Counter(result.answer for result in results)
        counts = ", ".join(f"{answers[answer]} {answer}" for answer in get_args(Answer))
        print(f"{counted(len(results), 'repro file')}: {counts}")
    sys.exit(worst([*statuses, *(result.exit_status for result in results)]))


def _repros(path: Path, cases: list[Path]) -> list[Path]:
    """The repro files that a path names in addition to plain cases: the path itself, or the files in a folder."""
    if not path.is_dir():
        return [] if cases else [path]
    files = [file for file in sorted(path.glob("*.json")) if file not in cases]
    if not files and not cases:
        raise InvalidCase(f"{path}: no repro file in this folder")
    return files


def _replay_file(
    file: Path, kind: type[AnySubject], repro: AnyRepro, replayer: Replayer, json: bool, *, picture: bool
) -> Replayed:
    """Replay one repro file. `picture`: draw what a failure shows, and say what comes next after one that is fixed.
    Raises InvalidCase, and what workers do."""
    from harness.reports.drawn import print_picture
    from harness.reports.registry import file_report
    from harness.reports.terminal import print_lines
    from harness.repro import naming
    from harness.subject.summary import Line

    with naming(file):
        subject, repro, replayed, _, judged = replayer.replay(kind, repro)
    if json:
        print(msgspec.json.encode({"file": str(file), **subject.answer_fields(replayed)}).decode())
    else:
        file_report(kind.name).replayed(file, repro, replayed)
        if picture and replayed.answer == "FAILED":
            print_picture(subject.with_result(repro, judged))
        if picture and replayed.answer == "FIXED":
            keep = f"harness corpus add {shlex.quote(str(file))} --to corpus"
            print_lines(Line("next", command) for command in (subject.looking_again(repro), keep))
    return replayed
