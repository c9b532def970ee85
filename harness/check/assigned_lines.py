"""Assigned lines say which Python line of the code under test last assigned each number that the host sees.

They come from a run that is traced line by line: after each line, whatever changed was assigned by it, also where the
line called code of others, such as a copy of torch or the launch of a kernel. Passing cases are never traced.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.check.operations.call import Results
from harness.check.raised import Owns
from harness.code_lines import CodeLine

_NO_LINE = -1


class AssignedLines:
    """The lines of one operation; a later operation starts anew. `owns` says what is code under test."""

    def __init__(self, owns: Owns) -> None:
        self._owns = owns
        self._lines: list[CodeLine] = []
        self._numbers: dict[CodeLine, int] = {}
        self._held: Results = {}
        self._assigned: dict[str, NDArray[np.int64]] = {}
        """For each entry of each result the number of its line."""

    @contextmanager
    def traced(self, results: Callable[[], Results]) -> Iterator[None]:
        """Trace what is called meanwhile; `results` reads what the host sees at any time."""
        self._held = results()
        self._assigned = {name: np.full(len(values), _NO_LINE) for name, values in self._held.items()}
        here: CodeLine | None = None

        def look() -> None:
            now = results()
            for name, values in now.items():
                changed = values != self._held[name]
                if here is not None and changed.any():
                    self._assigned[name][changed] = self._number(here)
            self._held = now

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal here
            if not self._owns(frame.f_code.co_filename):
                return None
            sys.settrace(None)  # reading results runs Python code as well
            try:
                look()
            finally:
                sys.settrace(trace)
            if event == "return":
                caller = frame.f_back
                while caller is not None and not self._owns(caller.f_code.co_filename):
                    caller = caller.f_back
                here = None if caller is None else _line_of(caller)
            else:
                here = _line_of(frame)
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(before)

    def line(self, result: str, entry: int) -> CodeLine | None:
        """The line that last assigned an entry of a result; None if no line of the code under test did."""
        number = int(self._assigned[result][entry])
        return None if number == _NO_LINE else self._lines[number]

    def _number(self, line: CodeLine) -> int:
        if line not in self._numbers:
            self._numbers[line] = len(self._lines)
            self._lines.append(line)
        return self._numbers[line]


def _line_of(frame: FrameType) -> CodeLine:
    return CodeLine(frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno)
