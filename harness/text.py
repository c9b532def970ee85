"""Pieces of text that messages of all rooms are built from: an error in one line, a count, a place in code."""

from __future__ import annotations

from pathlib import PurePath


def counted(number: int, one: str, more: str | None = None) -> str:
    """`1 byte`, `2 bytes`; `more` where it is not `one` with an s."""
    return f"{number} {one if number == 1 else more or one + 's'}"


def one_line(message: object) -> str:
    """A message, such as that of an exception, in one line."""
    return " ".join(str(message).split())


def code_place(file: str, line: int, function: str) -> str:
    """`copy.py line 12, in move`; an empty `file` is an unknown one."""
    return f"{PurePath(file).name} line {line}, in {function}" if file else "a line that is not known"
