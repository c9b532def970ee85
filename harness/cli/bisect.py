"""`harness bisect`: which commit brought a fault?"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from harness.cli import options
from harness.cli.options import JsonOption, RecordedExecutorOption
from harness.exit_status import NOT_REACHED, NOTHING_FOUND, Interrupted

if TYPE_CHECKING:
    from harness.bisect.bisect import Found, Judge
    from harness.bisect.repository import Repository, Worktree
    from harness.bisect.state import Answer, State
    from harness.sweep.affected import TargetAnswer


def bisect(
    file: Annotated[Path, typer.Argument(help="A repro file.")],
    checkout: Annotated[str, typer.Argument(help="The checkout, as path:DIR; its files stay as they are.")],
    good: Annotated[str, typer.Argument(help="A commit at which the file does not fail.")],
    bad: Annotated[str, typer.Argument(help="A later commit at which it fails.")],
    base: options.BaseOption = None,
    executor: RecordedExecutorOption = None,
    case_limit: options.CaseLimitOption = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", help="File of answers, to continue from. Default: FILE.bisect.json in this folder."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Find the commit of a checkout's history that brought a fault, by replays in a worktree of its own.

    As with git bisect, a commit that cannot be judged is skipped: it lacks the operation, does not load, or fails in
    another way. Each answer is kept at once: the same command continues.

    Exit status: 0 found; 3 only commits are left that cannot be judged; 2 bad usage, or the file does not pass at GOOD
    and fail at BAD.
    """
    from harness.bisect import bisect as bisecting
    from harness.bisect.repository import Repository
    from harness.bisect.state import State, continued, keep
    from harness.files import require_writable_file
    from harness.kernels.targets.vllm.sources import PATH_PREFIX, checkout_tree
    from harness.sweep.sweep import SweepInterrupted

    if not checkout.startswith(PATH_PREFIX):
        raise typer.BadParameter(f"{checkout!r} is not a checkout: write path:DIR")
    options.require_base(base, [checkout])
    path = state or Path(f"{file.stem}.bisect.json")
    require_writable_file(path)
    tree = checkout_tree(checkout.removeprefix(PATH_PREFIX))
    repository = Repository(tree.directory)
    settings = (f"executor {executor}", f"base {base}", f"limit {case_limit}")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    known = continued(path, State(digest, repository.commit(good), repository.commit(bad), settings))
    with repository.worktree() as worktree:
        judge = _judge(file, worktree, base, executor, case_limit)
        try:
            found = bisecting.bisect(repository, known, judge, lambda: keep(path, known), options.announce)
        except (KeyboardInterrupt, SweepInterrupted):
            raise Interrupted(f"the same command continues from {path}") from None
    _print(repository, known, found, json)
    sys.exit(NOTHING_FOUND if found.first is not None else NOT_REACHED)


def _judge(file: Path, worktree: Worktree, base: str | None, executor: str | None, limit: float | None) -> Judge:
    from harness.bisect.repository import GitRefused
    from harness.subject.registry import read_file
    from harness.sweep.sweep import sweep

    kind, repro = read_file(file)

    def judge(commit: str) -> tuple[Answer, str]:
        try:
            worktree.show(commit)
        except GitRefused as reason:
            return "skip", str(reason)
        target = f"path:{worktree.path}"
        (swept,) = sweep([(file, kind, repro)], [target], executor, base=base, limit=limit)
        return _answer(swept.answers[0])

    return judge


def _answer(answer: TargetAnswer) -> tuple[Answer, str]:
    if answer.answer == "FAILED":
        return ("bad", "") if answer.same else ("skip", f"fails in another way: {answer.signature}")
    return ("good", "") if answer.answer == "FIXED" else ("skip", answer.detail)


def _print(repository: Repository, state: State, found: Found, json: bool) -> None:
    from harness.reports.console import printable

    skipped = [one for one in state.judged if one.answer == "skip"]
    if json:
        result = {
            "first": found.first,
            "left": found.left,
            "judged": msgspec.to_builtins(state.judged),
        }
        print(msgspec.json.encode(result).decode())
        return
    if found.first is not None:
        print(printable(f"first commit that fails: {repository.about(found.first)}"))
    else:
        print("it is one of these, and all but the last could not be judged:")
        for commit in found.left:
            print(printable(f"  {repository.about(commit)}"))
    for one in skipped:
        print(printable(f"not judged: {repository.about(one.commit)}: {one.why}"))
