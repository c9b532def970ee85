"""What workers say at the end is remembered in a file: no journal has it, and the next part of a campaign has other
workers.

It has a line of JSON for each of the campaigns that were put together; each part of a campaign makes one line of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from harness.files import replace_file, require_regular
from harness.subject.subject import Subject


class _Line(msgspec.Struct):
    """`cases`: how many cases it is about; `said`: see Subject.remembered."""

    cases: int
    said: msgspec.Raw


class Remembered:
    """The file at `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def recall(self, subject: Subject[Any, Any]) -> int:
        """Give a subject what there is. Returns how many cases that is about; a damaged line is about none."""
        try:
            require_regular(self._path)
            text = self._path.read_bytes()
        except OSError:  # none was written, or it cannot be read: then the cases are not known either
            return 0
        cases = 0
        for line in filter(None, text.split(b"\n")):
            try:
                read = msgspec.json.decode(line, type=_Line)
                subject.recall(bytes(read.said))
            except (msgspec.DecodeError, RecursionError):
                continue
            cases += read.cases
        return cases

    def write(self, subject: Subject[Any, Any], cases: int, notice: Callable[[str], None]) -> None:
        """Replace it by what the subject knows now. Findings matter more: what cannot be written is a notice."""
        line = msgspec.json.encode(_Line(cases, msgspec.Raw(subject.remembered())))
        try:
            replace_file(self._path, line + b"\n")
        except OSError as error:
            notice(f"{self._path} cannot be written ({error.strerror}): later parts do not know which lines ran")
