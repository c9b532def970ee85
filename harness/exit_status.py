"""An exit status is what a command came to, as README says: 0 nothing found, 1 findings, 2, 3, 4."""

from __future__ import annotations

from collections.abc import Iterable

WORST_FIRST = (4, 2, 1, 3, 0)
"""The harness failed; something is unusable or unsaved; findings; something required was not reached; nothing found."""


def worst(statuses: Iterable[int]) -> int:
    """Of several parts of one command, the status that counts."""
    return min(statuses, key=WORST_FIRST.index)
