"""A suggestion is the known name that a mistyped one most likely meant, as the end of an error message."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'precopy'?`, or an empty text if no known name is similar."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def unknown(kind: str, names: Iterable[str], known: Iterable[str]) -> str:
    """One line about names that do not exist: which, what the first of them may mean, and those that exist."""
    wrong, right = list(names), list(known)
    return f"unknown {kind} {', '.join(map(repr, wrong))}{suggest(wrong[0], right)}; known: {', '.join(right)}"
