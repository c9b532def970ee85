"""`harness corpus`: a folder of repro files that runs replay first (`harness run --corpus`)."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from harness.cli import options
from harness.cli.options import JsonOption
from harness.text import counted

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Keep the repro files that runs replay first.")

FolderArgument = Annotated[Path, typer.Argument(help="The folder of the corpus.")]


@app.command("add")
def add(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Repro files.")],
    folder: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="The folder of the corpus.")],
) -> None:
    """Copy repro files into a corpus, unless it has the same case with the same finding.

    All files are read before the first one is copied. Exit status: 0, or 2 where one is no repro file."""
    from harness.campaign.corpus import CorpusFile, add_to_corpus, read_corpus
    from harness.subject.registry import read_file

    new = [CorpusFile(file, *read_file(file)) for file in files]
    there = read_corpus(folder) if any(folder.rglob("*.json")) else []
    for file in new:
        path = add_to_corpus(file, folder, there)
        if path is None:
            print(f"{file.path}: its case is there already")
        else:
            there.append(file._replace(path=path))
            print(f"{file.path}: added as {path}")


@app.command("check")
def check(folder: FolderArgument) -> None:
    """Read all files of a corpus, without running them: how many there are of each kind, and which are there twice.

    `harness replay` runs them. Exit status: 0, or 2 where a file is no repro file or is there twice."""
    from harness.campaign.corpus import duplicates, read_corpus
    from harness.exit_status import BAD_INPUT, NOTHING_FOUND

    files = read_corpus(folder)
    twice = duplicates(files)
    for first, second in twice:
        print(f"{second.path} holds the same as {first.path}")
    kinds = Counter(file.kind.name for file in files)
    print(", ".join(counted(count, f"file of kind {kind}", f"files of kind {kind}") for kind, count in kinds.items()))
    sys.exit(BAD_INPUT if twice else NOTHING_FOUND)


@app.command("minimize")
def minimize(
    folder: FolderArgument,
    target: options.RecordedTargetOption = None,
    executor: options.RecordedExecutorOption = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the files that are not needed.")] = False,
    json: JsonOption = False,
) -> None:
    """Say which files of a corpus are enough: together they have the same findings, and reach the same regimes and
    kernel lines (of step sequences: counters) as all of them do.

    Files are run, on a target or on their own. One that could not be judged there is kept. Which files are enough is
    the same every time. Exit status: 0, or 2 where a file is no repro file."""
    from harness.campaign.corpus import enough, read_corpus, replay_corpus
    from harness.subject.subject import Setting

    files = read_corpus(folder)
    setting = Setting(target=target, executor=executor, announce=options.announce, sweeping=True)
    reached: dict[str, frozenset[str]] = {}
    unknown: list[str] = []
    for file, replay, _ in replay_corpus(files, setting, reach=True):
        if replay is None or replay.replayed.answer == "SKIPPED":
            unknown.append(str(file.path))
        else:
            finding = f"finding {file.repro.signature} {file.repro.issue or ''}"
            reached[str(file.path)] = replay.reached | {finding}
    chosen = enough(reached, {str(file.path): len(file.case) for file in files})
    needless = [name for name in reached if name not in chosen]
    if remove:
        for name in needless:
            Path(name).unlink()
    if json:
        print(msgspec.json.encode({"enough": chosen, "not_judged": unknown, "needless": needless}).decode())
        return
    what = len(set().union(*reached.values()))
    for name in chosen:
        print(f"enough {name}")
    for name in unknown:
        print(f"not judged, kept {name}")
    for name in needless:
        print(f"{'removed' if remove else 'needless'} {name}")
    print(f"{len(chosen)} of {counted(len(reached), 'file')} reach all {what} findings, situations and lines")
