"""Literals: how data of a file gets into a program or a page, so that it stays data.

A repro file comes from anywhere. Nothing of it may become code, end a comment or a string, or start a link: numbers and
the words of its schema are written by `repr`, free text is cut to one line of printable characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

WIDTH = 110

LONGEST_TEXT = 500
"""Characters of a file's own text that an exported file shows."""

_WORD = re.compile(r"[A-Za-z0-9 .,:;_+()-]*")
"""Text that needs no escapes."""

_PLAIN = re.compile(r"[^A-Za-z0-9 .,:;_=+*/()\[\]{}#@%&?!'\"<>|^~$-]")


def plain(text: object) -> str:
    """One line of a file's own text with nothing in it but printable ASCII, and no backslash or backquote."""
    line = " ".join(_PLAIN.sub(" ", str(text)).split())
    return line if len(line) <= LONGEST_TEXT else line[:LONGEST_TEXT] + " ..."


def comment(*paragraphs: str) -> str:
    """Paragraphs as lines of a Python comment. Each has to be `plain`, or a text of ours."""
    lines: list[str] = []
    for paragraph in paragraphs:
        lines += wrap(paragraph, WIDTH - 2, break_long_words=False, break_on_hyphens=False) or [""]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def words(text: object) -> str:
    """`plain` text that means nothing in Markdown either: no links, no tags, no mentions, no emphasis. Addresses are
    broken up, as pages make links of bare ones."""
    broken = re.sub(r"://|\bwww\.", " ", plain(text))
    return " ".join(re.sub(r"[^A-Za-z0-9 .,:;_+=/()'\"%?-]", " ", broken).split())


def file_name(text: object) -> str:
    """The name of a file that needs no quotes in a shell."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", plain(text)).strip("-") or "finding"


def in_markdown(text: object) -> str:
    """A file's own text in a Markdown page, as code: it has no backquotes, so nothing in it means anything there. The
    cells of a table have no bars either."""
    return f"`{plain(text).replace('|', ' ')}`" if plain(text) else ""


def literal(value: Any, indent: int = 0, room: int = WIDTH) -> str:
    """A Python expression for None, numbers, strings, lists, tuples, dictionaries and named tuples of these.

    Raises TypeError for anything else.
    """
    whole = _flat(value)
    if len(whole) + indent <= room:
        return whole
    inside = " " * (indent + 4)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        start, end = f"{type(value).__name__}(", ")"
        items = [f"{name}={literal(one, indent + 4)}" for name, one in _given(value)]
    elif isinstance(value, dict):
        start, end = "{", "}"
        items = [f"{_flat(key)}: {literal(one, indent + 4)}" for key, one in value.items()]
    elif isinstance(value, list | tuple) and value and all(isinstance(one, int) for one in value):
        start, end = ("[", "]") if isinstance(value, list) else ("(", ")")
        lines = wrap(", ".join(map(repr, value)) + ",", room - indent - 4)
        return f"{start}\n" + "".join(f"{inside}{line}\n" for line in lines) + " " * indent + end
    elif isinstance(value, list | tuple):
        start, end = ("[", "]") if isinstance(value, list) else ("(", ")")
        items = [literal(one, indent + 4) for one in value]
    else:
        return whole
    return f"{start}\n" + "".join(f"{inside}{item},\n" for item in items) + " " * indent + end


def _given(value: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a named tuple that are not at their defaults."""
    for name, one in zip(value._fields, value, strict=True):
        if name not in value._field_defaults or value._field_defaults[name] != one:
            yield name, one


def _flat(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, str):
        return f'"{value}"' if _WORD.fullmatch(value) else ascii(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"{type(value).__name__}({', '.join(f'{name}={_flat(one)}' for name, one in _given(value))})"
    if isinstance(value, list):
        return f"[{', '.join(map(_flat, value))}]"
    if isinstance(value, tuple):
        return f"({_joined(value)})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flat(key)}: {_flat(one)}" for key, one in value.items()) + "}"
    raise TypeError(f"no literal for a {type(value).__name__}")


def _joined(values: Sequence[Any]) -> str:
    return ", ".join(map(_flat, values)) + ("," if len(values) == 1 else "")
