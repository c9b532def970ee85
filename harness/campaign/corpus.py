"""A corpus is a folder of repro files that are kept: a run replays them first (`--corpus`), so that what was found once
is looked for every time.

It stays small: of many files those are enough that together reach what all of them reach."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from harness.case import InvalidCase
from harness.files import require_text
from harness.repro import AnyRepro, naming, write_repro
from harness.subject.registry import AnySubject, read_file
from harness.subject.replaying import Replay, replaying
from harness.subject.subject import NotApplicable, Setting


class CorpusFile(NamedTuple):
    """A file, the class of its subject, and what it holds."""

    path: Path
    kind: type[AnySubject]
    repro: AnyRepro

    @property
    def case(self) -> bytes:
        """Its case as JSON."""
        return msgspec.json.encode(self.kind.case_of(self.repro))


class ReplayedFile(NamedTuple):
    """What came of replaying a file; None: its finding says nothing about the target, for the `reason`."""

    file: CorpusFile
    replay: Replay | None
    reason: str = ""


def read_corpus(folder: Path) -> list[CorpusFile]:
    """The files of a corpus, those in its folders too (linked ones as well), in the order of their names. Raises
    InvalidCase if one of them is no repro file, or if there is none, and OSError for a name that no report can hold."""
    inside = (Path(home, name) for home, _, names in os.walk(folder, followlinks=True) for name in names)
    files = sorted(file for file in inside if file.suffix.lower() == ".json")
    if not files:
        raise InvalidCase(f"{folder}: no repro file in this folder")
    for file in files:
        require_text(file)
    return [CorpusFile(file, *read_file(file)) for file in files]


def replay_corpus(files: Sequence[CorpusFile], setting: Setting, *, reach: bool = False) -> list[ReplayedFile]:
    """Replay files. `reach`: also say what each case reached. Raises InvalidCase, Refusal, and what workers do."""
    found = []
    with replaying(setting) as replayer:
        for file in files:
            try:
                with naming(file.path):
                    found.append(ReplayedFile(file, replayer.replay(file.kind, file.repro, reach=reach)))
            except NotApplicable as reason:
                found.append(ReplayedFile(file, None, str(reason)))
    return found


def duplicates(files: Sequence[CorpusFile]) -> list[tuple[CorpusFile, CorpusFile]]:
    """Files that hold the same case and finding as an earlier one, each after that."""
    first: dict[tuple[str, str, bytes], CorpusFile] = {}
    found = []
    for file in files:
        earlier = first.setdefault((file.kind.name, str(file.repro.signature), file.case), file)
        if earlier is not file:
            found.append((earlier, file))
    return found


def add_to_corpus(file: CorpusFile, folder: Path, there: Sequence[CorpusFile]) -> Path | None:
    """Copy a file into a corpus that holds files already; None if one of these holds the same. Raises OSError."""
    if duplicates([*there, file]) != duplicates(there):
        return None
    path = folder / file.repro.file_name
    taken = {one.path.name for one in there}
    number = 2
    while path.name in taken:
        path = folder / f"{Path(file.repro.file_name).stem}.{number}.json"
        number += 1
    write_repro(path, file.repro)
    return path


def enough(reached: Mapping[str, frozenset[str]], sizes: Mapping[str, int]) -> list[str]:
    """Names that together reach what all of them reach, in order: a small set, though not always the smallest.

    The one that adds most is taken first, of equal ones the smallest, then the first by name; in the end those are left
    out that the others make needless. So it is the same every time."""
    left = set().union(*reached.values())
    chosen: list[str] = []
    while left:
        best = min(reached, key=lambda name: (-len(reached[name] & left), sizes[name], name))
        chosen.append(best)
        left -= reached[best]
    for name in sorted(chosen, key=lambda name: (-sizes[name], name)):
        others = set().union(*(reached[one] for one in chosen if one != name))
        if reached[name] <= others:
            chosen.remove(name)
    return sorted(chosen)
