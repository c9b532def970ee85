"""Words that several reports need: a number with what it counts."""

from __future__ import annotations


def counted(number: int, one: str, more: str | None = None) -> str:
    """`1 byte`, `2 bytes`; `more` where it is not `one` with an s."""
    return f"{number} {one if number == 1 else more or one + 's'}"
