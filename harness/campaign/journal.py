"""The journal of a campaign says which cases were judged and with what result, one line each as soon as it is known.

A campaign that was stopped or killed resumes where its journal ends. Each line is written completely before the next
result is taken. A line cut off by a kill is dropped, so that the next one starts on its own line."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

import msgspec

from harness.campaign.folder import in_use
from harness.files import NotSaved, require_regular
from harness.subject.entry import Entry
from harness.text import counted, cut

SHARD = "shard"
"""The name in a first line of the part that a campaign is; there is none for a whole campaign."""

SOURCES = "sources"
"""The setting that says which sources a checkout has."""

VERSIONS = ("generator", "regimes")
"""Settings that no user gives: the version of the harness does."""

LONGEST_VALUE = 100
"""The number of characters that it shows of a setting."""

SHOWN_NAMES = 3
"""The number of names that a message shows of a list that differs completely."""


class CannotResume(Exception):
    """There is no earlier part of this campaign; the message is one line that says why."""


class Journal:
    """The file at `path`, for a campaign that `identity` distinguishes from others."""

    def __init__(
        self,
        path: Path,
        identity: dict[str, object],
        noun: str,
        current: Callable[[dict[str, object]], dict[str, object]] = lambda identity: identity,
    ) -> None:
        """`current` translates an identity that an earlier version wrote into that of today."""
        self._path, self._head, self._noun, self._current = path, msgspec.json.encode(identity), noun, current
        self._stream: BinaryIO | None = None
        self.notices: list[str] = []
        """What was wrong with the journal that was read, in lines for the user."""
        self.damaged = 0
        """How many lines of it could not be read: cases that were judged, with what they gave."""

    @property
    def is_blank(self) -> bool:
        """Whether there is none, or one without even a first line."""
        return not self.is_there or b"\n" not in self._path.read_bytes()

    @property
    def is_there(self) -> bool:
        """Whether there is a journal of any campaign."""
        return self._path.is_file()

    def require_regular(self) -> None:
        """Raise OSError if `path` exists and is not a regular file: opening a pipe waits for a reader."""
        require_regular(self._path)

    def read(self) -> list[Entry]:
        """Entries of an earlier part of the same campaign, in order. Raises CannotResume if there is none or if it
        belongs to another campaign, OSError if the journal is not a regular file.

        A case has a second entry if its worker was lost after it had answered: the first one has its result.
        """
        self.require_regular()
        if not self.is_there:
            raise CannotResume(f"there is no {self._path} to resume from")
        lines = self._path.read_bytes().split(b"\n")
        if self._today(lines[0]) != self._head:
            raise CannotResume(self._refusal(lines[0]))
        if len(lines) == 1:  # a kill may also have cut off the end of the first line
            raise CannotResume(f"{self._path} holds nothing to resume from")
        entries, damaged = entries_of(lines[1:-1])
        self.damaged = len(damaged)
        again = f"the {self._noun} is judged again"
        if lines[-1]:
            self.notices.append(f"{self._path} ends in half a line, which is left out: {again}")
        if damaged:
            what = (
                f"{counted(len(damaged), 'line')} of {self._path} cannot be read, the first of them line {damaged[0]}"
            )
            self.notices.append(f"{what}: {again if len(damaged) == 1 else f'these {self._noun}s are judged again'}")
        return entries

    def _today(self, head: bytes) -> bytes:
        """The first line as this version writes it."""
        try:
            return msgspec.json.encode(self._current(msgspec.json.decode(head, type=dict[str, object])))
        except (msgspec.DecodeError, RecursionError):
            return head

    def _refusal(self, head: bytes) -> str:
        """Why the journal with this first line is not continued: how its settings differ from those of this
        campaign."""
        other = f"{self._path} is another campaign's: "
        try:
            there = _flat(self._current(msgspec.json.decode(head, type=dict[str, object])))
        except (msgspec.DecodeError, RecursionError):
            return f"{other}its first line does not say which"
        here = _flat(msgspec.json.decode(self._head, type=dict[str, object]))
        different = [name for name in {**here, **there} if here.get(name) != there.get(name)]
        if not different:
            return f"{other}its first line has another form"
        if different == [SOURCES]:
            return f"{self._path} is of other sources of this target, which was edited since: start anew"
        if not set(different) - set(VERSIONS):
            other = (
                f"{self._path} is of another version of the harness, which draws other cases or counts other regimes: "
            )
        return other + "; ".join(_setting_difference(name, there.get(name), here.get(name)) for name in different)

    def open(self, *, resume: bool) -> None:
        """Start writing: after the existing lines, or a new file, which must not be there.

        Raises NotSaved, also while another campaign writes there, or OSError as `require_regular` does.
        """
        self.require_regular()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = locked(self._path)
            if not resume and self._path.stat().st_size:
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), str(self._path))
            self._stream.truncate(self._path.read_bytes().rfind(b"\n") + 1)
        except OSError as error:
            self.close()
            raise self._not_saved(error, "the journal of this campaign") from error
        if not resume:
            self._write(self._head, "the journal of this campaign")

    def append(self, entry: Entry) -> None:
        """Raises NotSaved."""
        what = f"what {self._noun} {entry.index} gave" + (f", {entry.signature}," if entry.signature else "")
        self._write(msgspec.json.encode(entry), what)

    def _write(self, line: bytes, what: str) -> None:
        assert self._stream is not None
        left = line + b"\n"
        try:
            while left:
                written = self._stream.write(left)  # a disk that is nearly full may take only a part
                if not written:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                left = left[written:]
        except OSError as error:
            raise self._not_saved(error, what) from error

    def _not_saved(self, error: OSError, what: str) -> NotSaved:
        return NotSaved(what, OSError(error.errno, os.strerror(error.errno or errno.EIO), str(self._path)))

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def entries_of(lines: Iterable[bytes]) -> tuple[list[Entry], list[int]]:
    """The entries in the lines after the first one of a journal, each once, and the numbers of lines in the file that
    are none."""
    entries: dict[tuple[int, str | None, str | None], Entry] = {}
    damaged = []
    for number, line in enumerate(lines, 2):
        try:
            entry = msgspec.json.decode(line, type=Entry)
        except (msgspec.DecodeError, RecursionError):
            damaged.append(number)
        else:
            entries.setdefault((entry.index, entry.signature, entry.issue), entry)
    return list(entries.values()), damaged


def locked(path: Path) -> BinaryIO:
    """A journal, opened for appending and locked for this process. Raises NotSaved if another campaign has it."""
    stream = path.open("ab", buffering=0)
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the lock ends with the process, in any case
    except BlockingIOError:
        stream.close()
        what = "the journal of this campaign"
        raise NotSaved(what, in_use(path)) from None
    return stream


def _flat(identity: dict[str, object], prefix: str = "") -> dict[str, object]:
    """Settings by name, including nested ones: nesting is an implementation detail."""
    flat: dict[str, object] = {}
    for name, value in identity.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{name} " if name in ("pins", "kernels", "relations") else ""))
        else:
            flat[prefix + name] = value
    return flat


def _setting_difference(name: str, there: object, here: object) -> str:
    """How a setting of another campaign differs; for lists that share something, what only one of them has."""
    name = cut(name, LONGEST_VALUE)
    if isinstance(there, list) and isinstance(here, list) and any(value in here for value in there):
        more, less = ([one for one in a if one not in b] for a, b in ((there, here), (here, there)))
        parts = [f"{word} {_formatted(part)}" for word, part in (("with", more), ("without", less)) if part]
        return f"{name} {' and '.join(parts) or 'in another order'}"
    return f"{name} {_formatted(there)}, not {_formatted(here)}"


def _formatted(value: object) -> str:
    if isinstance(value, list):
        more = len(value) - SHOWN_NAMES
        shown = ", ".join(cut(one, LONGEST_VALUE) for one in (value[:SHOWN_NAMES] if more > 1 else value))
        return f"{shown} and {more} more" if more > 1 else shown or "none"
    return "none" if value is None else cut(value, LONGEST_VALUE)
