"""The journal of a sequence campaign says which sequences were run and what each gave, a line as soon as it is known.

A campaign that is stopped, or killed, goes on where its journal ends. Each line is written whole before the next
sequence is asked about; what a kill tore off is dropped, so that the line after it stays a line of its own.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
from msgspec import Meta

from harness.campaign.saving import NotSaved


class Entry(msgspec.Struct, frozen=True):
    """A line of the journal: one sequence that was run."""

    index: Annotated[int, Meta(ge=0)]
    steps: Annotated[int, Meta(ge=0)]
    seconds: float
    counters: dict[str, int]
    skipped: str | None = None
    signature: str | None = None
    issue: str | None = None


class Journal:
    """The file at `path`, for a campaign that `identity` tells from others."""

    def __init__(self, path: Path, identity: dict[str, object]) -> None:
        self._path, self._head = path, msgspec.json.encode(identity)
        self._stream: BinaryIO | None = None

    def read(self) -> list[Entry] | None:
        """Entries of an earlier part of the same campaign; None if there is none, or it was another campaign's."""
        if not self._path.is_file():
            return None
        lines = self._path.read_bytes().split(b"\n")
        if lines[0] != self._head or len(lines) == 1:  # a kill may have torn off the end of the first line, too
            return None
        entries = {}
        for line in lines[1:]:
            try:
                entry = msgspec.json.decode(line, type=Entry)
            except (msgspec.DecodeError, RecursionError):
                continue
            entries[entry.index] = entry
        return list(entries.values())

    def open(self, *, go_on: bool) -> None:
        """Start writing: after what is there, or anew. Raises NotSaved, also while another campaign writes there."""
        try:
            self._stream = self._path.open("ab", buffering=0)
            try:
                fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process, however that ends
            except BlockingIOError:
                what = "the journal of this campaign"
                raise NotSaved(
                    what,
                    OSError(errno.EWOULDBLOCK, "another campaign is writing here: give another --out", str(self._path)),
                ) from None
            self._stream.truncate(self._path.read_bytes().rfind(b"\n") + 1 if go_on else 0)
        except OSError as error:
            raise self._not_saved(error, "the journal of this campaign") from error
        if not go_on:
            self._write(self._head, "the journal of this campaign")

    def append(self, entry: Entry) -> None:
        """Raises NotSaved."""
        what = f"what sequence {entry.index} gave" + (f", {entry.signature}," if entry.signature else "")
        self._write(msgspec.json.encode(entry), what)

    def _write(self, line: bytes, what: str) -> None:
        assert self._stream is not None
        left = line + b"\n"
        try:
            while left:
                written = self._stream.write(left)  # a disk that is nearly full takes a part
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
