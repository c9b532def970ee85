"""Host lines are the lines of Python that led to a launch: where production code called its kernel."""

from __future__ import annotations

import os
from pathlib import Path
from types import FrameType

from harness.code_lines import CodeLine

_EXECUTORS = str(Path(__file__).parents[1]) + os.sep
_DEEPEST = 64


def host_lines(frame: FrameType | None) -> tuple[CodeLine, ...]:
    """The lines from `frame` outwards, innermost first, without those of executors and of Triton's own code."""
    lines: list[CodeLine] = []
    while frame is not None and len(lines) < _DEEPEST:
        code = frame.f_code
        if not code.co_filename.startswith(_EXECUTORS) and f"{os.sep}triton{os.sep}" not in code.co_filename:
            lines.append(CodeLine(code.co_filename, code.co_name, frame.f_lineno))
        frame = frame.f_back
    return tuple(lines)
