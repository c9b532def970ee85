"""Pieces of text that messages of all rooms are built from: an error in one line, a count."""

from __future__ import annotations


def counted(number: int, one: str, more: str | None = None) -> str:
    """`1 byte`, `2 bytes`; `more` where it is not `one` with an s."""
    return f"{number} {one if number == 1 else more or one + 's'}"


def cut(message: object, most: int) -> str:
    """A message of which at most `most` characters are shown: names in files that others wrote have any length."""
    text = str(message)
    return text if len(text) <= most else f"{text[: most - 4]} ..."


LONGEST_REASON = 500
"""The number of characters that messages show of what is wrong with a file."""


def reason(error: Exception) -> str:
    """What is wrong with a file, in one line of bounded length."""
    return cut(one_line(error), LONGEST_REASON)


def one_line(message: object) -> str:
    """A message, such as that of an exception, in one line. Surrogates, which no file can hold, are written out."""
    return " ".join(str(message).encode("utf-8", "backslashreplace").decode().split())
