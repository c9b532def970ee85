"""A suggestion is the known name that a mistyped one most likely meant, as the end of an error message."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from harness.text import cut

LONGEST_NAME = 80
"""The number of characters of an unknown name that messages show: files that others wrote may have any."""
MOST_NAMES = 10
"""The number of unknown names that they show."""


def suggest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'precopy'?`, or an empty text if no known name is similar."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def unknown(kind: str, names: Iterable[str], known: Iterable[str]) -> str:
    """One line about names that do not exist: which, what the first of them may mean, and those that exist."""
    wrong, right = ([cut(name, LONGEST_NAME) for name in some] for some in (names, known))
    shown = [*map(repr, wrong[:MOST_NAMES]), *([f"{len(wrong) - MOST_NAMES} more"] if len(wrong) > MOST_NAMES else [])]
    return f"unknown {kind} {', '.join(shown)}{suggest(wrong[0], right)}; known: {', '.join(right)}"
