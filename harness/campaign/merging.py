"""Merging puts the journals of shards together: the folder that results is that of one campaign which judged it all.

Findings are not copied. The campaign is then resumed, which judges the first case of each finding again, and sorts them
out with all cases known, as a run without shards does."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.campaign.earlier import move_aside
from harness.campaign.folder import OWN, REMEMBERED, CampaignFolder, Options
from harness.campaign.harness_failures import FAILURES
from harness.campaign.journal import SHARD, entries_of
from harness.campaign.shard import Shard, parse_shard
from harness.files import NotSaved, replace_file, require_writable
from harness.refusal import Refusal
from harness.subject.entry import Entry
from harness.subject.registry import subject_classes
from harness.text import counted

JOURNALS = "*.journal"


class CannotMerge(Refusal):
    """Folders that are not the shards of one campaign; the message is one line that says why."""


class Merged(msgspec.Struct, frozen=True):
    """The options of the whole campaign; where an earlier campaign in the folder was moved to, if there was one; and
    notices for the user."""

    options: dict[str, str | bool | int | float | None]
    aside: Path | None
    notices: list[str]


def merge(folders: Sequence[Path], out: Path) -> Merged:
    """Write the campaign of these shards to the folder `out`, to be resumed.

    Raises CannotMerge or NoConfiguration with nothing written; NotSaved, also while a campaign writes one of them."""
    if any(folder.resolve() == out.resolve() for folder in folders):
        raise CannotMerge(f"'{out}' is one of the shards: name another folder with --out")
    options = _options(folders)
    require_writable(out)
    with contextlib.ExitStack() as stack:
        for folder in folders:
            stack.enter_context(CampaignFolder(folder).locked())
        journals, notices = _journals(folders)
        with CampaignFolder(out).locked():
            homes = sorted({out / name.parent for name in journals})
            aside = next(filter(None, [move_aside(home, subject_classes()) for home in homes]), None)
            _write(out, journals, options)
            _join_memories(folders, out)
            notices += _copy_failures(folders, out)
    return Merged(options, aside, notices)


def _options(folders: Sequence[Path]) -> dict[str, str | bool | int | float | None]:
    """The options of the whole campaign. Raises CannotMerge."""
    first: tuple[Path, Options] | None = None
    found: dict[Shard, Path] = {}
    for folder in folders:
        options: dict[str, Any] = dict(CampaignFolder(folder).read().options)
        text = options.pop("shard", None)
        if text is None:
            raise CannotMerge(f"'{folder}' is no shard, but a whole campaign")
        try:
            shard = parse_shard(str(text))
        except ValueError as error:
            raise CannotMerge(f"'{folder}': {error}") from error
        if shard in found:
            raise CannotMerge(f"'{found[shard]}' and '{folder}' are both shard {shard}")
        found[shard] = folder
        if first is None:
            first = folder, options
        different = _difference(first[1], options)
        if different is not None:
            raise CannotMerge(f"'{first[0]}' and '{folder}' are not of one campaign: they differ in {different}")
    of = {shard.of for shard in found}
    if len(of) > 1 or first is None:
        raise CannotMerge(f"these are shards of different divisions: {', '.join(map(str, found))}")
    missing = [one for one in (Shard(number, *of) for number in range(1, 1 + next(iter(of)))) if one not in found]
    if missing:
        names = ", ".join(map(str, missing[:3])) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        raise CannotMerge(f"of {next(iter(of))} shards {names} {'is' if len(missing) == 1 else 'are'} missing")
    return {name: value for name, value in first[1].items() if name not in OWN_TO_A_SHARD}


OWN_TO_A_SHARD = ("workers", "no_shrink")
"""Options that say how a shard ran on its machine."""

MAY_DIFFER = (*OWN_TO_A_SHARD, "budget", "case_limit")
"""Options that decide neither which cases there are nor what they give."""


def _difference(one: Options, other: Options) -> str | None:
    """The name of an option in which two shards differ."""
    names = [name for name in {**one, **other} if name not in MAY_DIFFER and one.get(name) != other.get(name)]
    return f"--{names[0].replace('_', '-')}" if names else None


class _Journal(msgspec.Struct):
    head: dict[str, Any]
    file: Path
    entries: list[Entry]


def _journals(folders: Sequence[Path]) -> tuple[dict[Path, _Journal], list[str]]:
    """The journals of all shards put together, by their names in a campaign folder. Raises CannotMerge."""
    found: dict[Path, _Journal] = {}
    notices: list[str] = []
    for folder in folders:
        files = [*sorted(folder.glob(JOURNALS)), *sorted(folder.glob(f"*/{JOURNALS}"))]
        files = [file for file in files if not file.parent.name.startswith("earlier.")]
        if not files:
            notices.append(f"'{folder}' has no journal: it judged nothing")
        for file in files:
            head, entries, damaged = _read(file)
            if damaged:
                notices.append(f"{counted(damaged, 'line')} of {file} cannot be read: what they say is missing")
            name = file.relative_to(folder)
            merged = found.setdefault(name, _Journal(head, file, []))
            if merged.head != head:
                raise CannotMerge(f"{merged.file} and {file} are not of one campaign")
            merged.entries += entries
    if not found:
        raise CannotMerge("none of the shards has judged anything")
    return found, notices


def _read(file: Path) -> tuple[dict[str, Any], list[Entry], int]:
    """The first line of a journal without its shard, its entries, and how many lines cannot be read. Raises
    CannotMerge."""
    first, *lines = file.read_bytes().split(b"\n")
    try:
        head = msgspec.json.decode(first, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise CannotMerge(f"the first line of {file}, which says whose it is, cannot be read") from error
    head.pop(SHARD, None)
    entries, damaged = entries_of(filter(None, lines))
    return head, entries, len(damaged)


def _write(out: Path, journals: Mapping[Path, _Journal], options: Options) -> None:
    CampaignFolder(out).write(options)
    for name, journal in journals.items():
        in_order = sorted(journal.entries, key=lambda entry: entry.index)
        lines = [msgspec.json.encode(journal.head), *map(msgspec.json.encode, in_order)]
        try:
            replace_file(out / name, b"\n".join(lines) + b"\n", to_last=True)
        except OSError as error:
            raise NotSaved("the journal of this campaign", error) from error


def _join_memories(folders: Sequence[Path], out: Path) -> None:
    """Put together what workers said. Raises NotSaved."""
    found: dict[Path, bytes] = {}
    for folder in folders:
        for file in [*folder.glob(f"{OWN}/*{REMEMBERED}"), *folder.glob(f"*/{OWN}/*{REMEMBERED}")]:
            name = file.relative_to(folder)
            found[name] = found.get(name, b"") + file.read_bytes()
    for name, text in found.items():
        try:
            replace_file(out / name, text)
        except OSError as error:
            raise NotSaved("what the workers of shards said", error) from error


def _copy_failures(folders: Sequence[Path], out: Path) -> list[str]:
    """Copy the cases that the harness failed in; no journal has them, so that they are judged again if a number of
    cases was asked for."""
    copied = 0
    for folder in folders:
        for file in [*folder.glob(f"{FAILURES}/*"), *folder.glob(f"*/{FAILURES}/*")]:
            there = out / file.relative_to(folder)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, there)
            copied += file.suffix == ".txt"
    return [f"the harness failed {copied} times in shards: see '{FAILURES}' in '{out}'"] if copied else []
