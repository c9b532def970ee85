"""Merging puts the journals of shards together: the folder that results is that of one campaign which judged it all.

Findings are not copied. The campaign is then resumed, which judges the first case of each finding again, and sorts them
out with all cases known, as a run without shards does."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.campaign.earlier import EARLIER, move_aside
from harness.campaign.folder import AS_DRAWN, MET, OWN, REMEMBERED, CampaignFolder, Kept, Options
from harness.campaign.harness_failures import FAILURES
from harness.campaign.journal import SHARD, entries_of
from harness.campaign.shard import Shard, parse_shard
from harness.files import NotSaved, replace_file, require_regular, require_writable
from harness.refusal import Refusal
from harness.subject.entry import Entry
from harness.subject.registry import subject_classes
from harness.text import counted

JOURNALS = "*.journal"

OWN_TO_A_SHARD = ("workers", "no_shrink")
"""Options that say how a shard ran on its machine."""

MAY_DIFFER = (*OWN_TO_A_SHARD, "budget", "case_limit", "memory_limit")
"""Options that decide neither which cases there are nor what they give."""


READ_ONLY = ("baseline", "corpus")
"""Options that name folders in which a campaign writes nothing."""


class CannotMerge(Refusal):
    """Folders that are not the shards of one campaign; the message is one line that says why."""


class Merged(msgspec.Struct, frozen=True):
    """The options of the whole campaign; where earlier campaigns in the folder were moved to; and notices for the
    user."""

    options: Kept
    aside: list[Path]
    notices: list[str]


def merge(folders: Sequence[Path], out: Path) -> Merged:
    """Write the campaign of these shards to the folder `out`, to be resumed.

    Raises CannotMerge or NoConfiguration with nothing written; NotSaved, also while a campaign writes one of them."""
    if any(out.resolve().is_relative_to(folder.resolve()) for folder in folders):
        raise CannotMerge(f"'{out}' is one of the shards, or in one: name another folder with --out")
    options, parts = _options(folders)
    for name in READ_ONLY:
        read = options.get(name)
        if isinstance(read, str) and Path(read).resolve() == out.resolve():
            raise CannotMerge(f"'{out}' is the --{name} of this campaign: name another folder with --out")
    require_writable(out)
    with contextlib.ExitStack() as stack:
        for folder in folders:
            stack.enter_context(CampaignFolder(folder).locked())
        journals, notices = _journals(parts)
        rest = _rest(folders)
        with CampaignFolder(out).locked():
            homes = sorted({out / name.parent for name in journals})
            aside = list(filter(None, [move_aside(home, subject_classes()) for home in homes]))
            _write(out, journals, options)
            notices += _write_rest(out, rest)
    return Merged(options, aside, notices)


def _options(folders: Sequence[Path]) -> tuple[Kept, dict[Shard, Path]]:
    """The options of the whole campaign, and the folder of each shard. Raises CannotMerge."""
    first: tuple[Path, Options] | None = None
    found: dict[Shard, Path] = {}
    for folder in folders:
        options: Kept = dict(CampaignFolder(folder).read().options)
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
    return {name: value for name, value in first[1].items() if name not in OWN_TO_A_SHARD}, found


def _difference(one: Options, other: Options) -> str | None:
    """The name of an option in which two shards differ."""
    names = [name for name in {**one, **other} if name not in MAY_DIFFER and one.get(name) != other.get(name)]
    return f"--{names[0].replace('_', '-')}" if names else None


class _Journal(msgspec.Struct):
    """A first line without its shard, the file that it was read from first, the entries, and lines that are none: these
    stay, so that the campaign knows that something is missing."""

    head: dict[str, Any]
    file: Path
    entries: list[Entry]
    damaged: list[bytes]


def _journals(parts: Mapping[Shard, Path]) -> tuple[dict[Path, _Journal], list[str]]:
    """The journals of all shards put together, by their names in a campaign folder. Raises CannotMerge."""
    found: dict[Path, _Journal] = {}
    notices: list[str] = []
    for shard, folder in parts.items():
        files = _files(folder, JOURNALS)
        if not files:
            raise CannotMerge(f"'{folder}' has no journal, so nothing of this shard was judged: resume it first")
        for file in files:
            head, entries, damaged = _read(file, shard)
            if damaged:
                notices.append(f"{counted(len(damaged), 'line')} of {file} cannot be read: what they say is missing")
            name = file.relative_to(folder)
            merged = found.setdefault(name, _Journal(head, file, [], []))
            if merged.head != head:
                raise CannotMerge(f"{merged.file} and {file} are not of one campaign")
            merged.entries += entries
            merged.damaged += damaged
    return found, notices


def _read(file: Path, shard: Shard) -> tuple[dict[str, Any], list[Entry], list[bytes]]:
    """The first line of a shard's journal without the shard, its entries, and the lines that cannot be read. Raises
    CannotMerge."""
    try:
        require_regular(file)
        first, *lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise CannotMerge(f"{file}: {error.strerror or error}") from error
    try:
        head = msgspec.json.decode(first, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise CannotMerge(f"the first line of {file}, which says whose it is, cannot be read") from error
    if head.pop(SHARD, None) != str(shard):
        raise CannotMerge(f"{file} is not the journal of shard {shard}, as its configuration has it")
    lines = list(filter(None, lines))
    entries, damaged = entries_of(lines)
    return head, entries, [lines[number - 2] for number in damaged]


def _write(out: Path, journals: Mapping[Path, _Journal], options: Options) -> None:
    CampaignFolder(out).write(options)
    for name, journal in journals.items():
        in_order = sorted(journal.entries, key=lambda entry: entry.index)
        lines = [msgspec.json.encode(journal.head), *map(msgspec.json.encode, in_order), *journal.damaged]
        try:
            replace_file(out / name, b"\n".join(lines) + b"\n", to_last=True)
        except OSError as error:
            raise NotSaved("the journal of this campaign", error) from error


def _files(folder: Path, pattern: str) -> list[Path]:
    """Files of a campaign, and of those in its subfolders, one for each target; not what an earlier campaign left."""
    inside = [one for one in sorted(folder.iterdir()) if one.is_dir() and not one.name.startswith(f"{EARLIER}.")]
    homes = [folder, *(one for one in inside if one.name not in (OWN, FAILURES, AS_DRAWN, MET))]
    return [file for home in homes for file in sorted(home.glob(pattern))]


class _Rest(msgspec.Struct):
    """What shards have in addition to journals, by names in a campaign folder: what their workers said, and cases that
    the harness failed in. No journal has these, so they are judged again if a number of cases was asked for."""

    said: dict[Path, bytes]
    failures: dict[Path, bytes]


def _rest(folders: Sequence[Path]) -> _Rest:
    """Raises CannotMerge."""
    rest = _Rest({}, {})
    for folder in folders:
        try:
            for file in _files(folder, f"{OWN}/*{REMEMBERED}"):
                require_regular(file)
                name = file.relative_to(folder)
                rest.said[name] = rest.said.get(name, b"") + file.read_bytes()
            for file in _files(folder, f"{FAILURES}/*"):
                require_regular(file)
                rest.failures[file.relative_to(folder)] = file.read_bytes()
        except OSError as error:
            raise CannotMerge(f"{error.filename or folder}: {error.strerror or error}") from error
    return rest


def _write_rest(out: Path, rest: _Rest) -> list[str]:
    """Returns notices. Raises NotSaved."""
    for name, text in {**rest.said, **rest.failures}.items():
        try:
            replace_file(out / name, text)
        except OSError as error:
            raise NotSaved("what shards have in addition to their journals", error) from error
    failed = sum(name.suffix == ".txt" for name in rest.failures)
    return [f"the harness failed in {counted(failed, 'case')} of shards: see '{FAILURES}' in '{out}'"] if failed else []
