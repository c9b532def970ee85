"""A source line is a place in a kernel: file, function, line. TTIR carries them as locations.

They name the place of a fault and the lines that ran. An inlined device function has its own lines; Triton's
standard library (`tl.cdiv`) counts as the line that called it.
"""

from __future__ import annotations

import functools
import linecache
import os
import re

import triton

from harness.code_lines import CodeLine
from harness.kernels.executors.base import ExecutorCannot

_LIBRARY = os.path.dirname(os.path.abspath(triton.__file__)) + os.sep
_DEFINITION = re.compile(r"\s*(?:async\s+)?def\s+(\w+)")
_ALIAS = re.compile(r"#loc\d*")
_FILE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)(?: to .*)?')
_CALL_SITE = re.compile(r"callsite\((#loc\d*|unknown) at (#loc\d*|unknown)\)")
_NAMED = re.compile(r'"(?:[^"\\]|\\.)*"\((.*)\)')
_FUSED = re.compile(r"fused(?:<[^>]*>)?\[(.*)\]")


SourceLine = CodeLine
"""One line of a kernel or of a device function it calls. `function` is empty where no `def` precedes it."""


class LocationTable:
    """The location aliases (`#loc12 = loc(...)`) of one TTIR text, resolved to the innermost kernel line."""

    def __init__(self, lines: list[str]) -> None:
        self._aliases: dict[str, str] = {}
        self._known: dict[str, tuple[SourceLine, ...]] = {}
        for line in lines:
            alias, _, rest = line.partition(" = loc(")
            if not _ALIAS.fullmatch(alias) or not rest.endswith(")"):
                raise ExecutorCannot(f"the native executor cannot read the location {line!r}")
            self._aliases[alias] = rest[:-1]

    def line(self, location: str) -> SourceLine | None:
        """The innermost line outside Triton's library that the text inside `loc(...)` names; None if unknown."""
        frames = self._frames(location)
        own = self._own(frames)
        return own[0] if own else frames[0] if frames else None

    def callers(self, location: str) -> tuple[SourceLine, ...]:
        """The lines of the calls that lead to `line(location)`, innermost first."""
        return self._own(self._frames(location))[1:]

    @staticmethod
    def _own(frames: tuple[SourceLine, ...]) -> tuple[SourceLine, ...]:
        return tuple(frame for frame in frames if not frame.file.startswith(_LIBRARY))

    def _frames(self, location: str) -> tuple[SourceLine, ...]:
        frames = self._known.get(location)
        if frames is None:
            self._known[location] = frames = self._resolve(location)
        return frames

    def _resolve(self, location: str) -> tuple[SourceLine, ...]:
        if location in self._aliases:
            return self._frames(self._aliases[location])
        if location == "unknown":
            return ()
        if match := _FILE.fullmatch(location):
            file, line = match[1], int(match[2])
            return (SourceLine(file, function_at(file, line), line),)
        if match := _CALL_SITE.fullmatch(location):
            return self._frames(match[1]) + self._frames(match[2])
        if match := _NAMED.fullmatch(location):
            return self._frames(match[1])
        if match := _FUSED.fullmatch(location):
            return next((frames for part in match[1].split(", ") if (frames := self._frames(part))), ())
        raise ExecutorCannot(f"the native executor cannot read the location {location!r}")


def function_at(file: str, line: int) -> str:
    """The function that contains `line` (from 1) of `file`: the last `def` at or before it."""
    starts, names = _definitions(file)
    name = ""
    for start, candidate in zip(starts, names, strict=True):
        if start > line:
            break
        name = candidate
    return name


@functools.lru_cache(maxsize=64)
def _definitions(file: str) -> tuple[list[int], list[str]]:
    starts, names = [], []
    previous_is_decorator = None
    for number, text in enumerate(linecache.getlines(file), start=1):
        stripped = text.lstrip()
        if stripped.startswith("@"):
            previous_is_decorator = previous_is_decorator or number
        elif match := _DEFINITION.match(text):
            # A kernel's own location is its first decorator line.
            starts.append(previous_is_decorator or number)
            names.append(match[1])
            previous_is_decorator = None
    return starts, names
