"""The spelling of TTIR: lines, locations, lists and names, as Triton prints them."""

from __future__ import annotations

import re
from typing import NamedTuple

from harness.kernels.executors.base import ExecutorCannot
from harness.kernels.executors.native.ir import Argument
from harness.kernels.executors.native.types import parse_type

NAME = r"%[\w$.-]+(?:#\d+)?"
"""Matches the name of a value."""

_OPERATION = re.compile(r'"?([\w.]+)"?')


class IrLine(NamedTuple):
    """A line without locations; `location` is the text of the one at its end."""

    text: str
    location: str | None


class Unreadable(Exception):
    """The parser does not know the current line."""


def split_location(line: str) -> IrLine:
    """`line` without its ` loc(...)` parts and comments, and the text of the last one if it ends the line."""
    if line.startswith("^"):
        line = line.partition("  //")[0]
    location = None
    parts = []
    rest = line
    while (start := rest.find(" loc(")) >= 0:
        end = _closing(rest, start + 4)
        parts.append(rest[:start])
        location = rest[start + 5 : end]
        rest = rest[end + 1 :]
    parts.append(rest)
    return IrLine("".join(parts), None if rest else location)


def _closing(text: str, start: int) -> int:
    """The position where the parenthesis that opens at `start` closes."""
    depth, quoted = 0, False
    for index in range(start, len(text)):
        character = text[index]
        if character == '"' and text[index - 1] != "\\":
            quoted = not quoted
        elif not quoted and character == "(":
            depth += 1
        elif not quoted and character == ")":
            depth -= 1
            if depth == 0:
                return index
    raise ExecutorCannot(f"the native executor cannot read the location in {text!r}")


def head(body: str) -> tuple[str, str]:
    """The operation's name, without the quotes of the generic form, and the rest of its line."""
    match = _OPERATION.match(body)
    return (match[1], body[match.end() :].lstrip()) if match else (body, "")


def split_list(text: str) -> list[str]:
    """The parts of a list, separated by commas outside any brackets."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        if character in "<([{":
            depth += 1
        elif character in ")]}" or (character == ">" and text[index - 1] != "-"):
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def typed_arguments(text: str) -> tuple[Argument, ...]:
    pairs = (part.split(": ", 1) for part in split_list(text))
    return tuple(Argument(name, parse_type(type_text)) for name, type_text in pairs)


def matched(pattern: str, text: str) -> re.Match[str]:
    match = re.fullmatch(pattern, text)
    if match is None:
        raise Unreadable(text)
    return match


def names(text: str) -> tuple[str, ...]:
    names = tuple(split_list(text))
    for name in names:
        matched(NAME, name)
    return names
