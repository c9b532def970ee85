"""Exit statuses of the `harness` commands (README), and the one exception that carries what an interrupt leaves."""

from __future__ import annotations

from collections.abc import Iterable

NOTHING_FOUND, FINDINGS, BAD_INPUT, NOT_REACHED, HARNESS_FAILED = 0, 1, 2, 3, 4
INTERRUPTED, UNREAD, TERMINATED = 130, 141, 143
"""128 and the number of a signal, as for any tool: Ctrl-C, a pipe without a reader, and SIGTERM."""

WORST_FIRST = (HARNESS_FAILED, BAD_INPUT, FINDINGS, NOT_REACHED, NOTHING_FOUND)
"""The harness failed; something is unusable or unsaved; findings; something required was not reached; nothing found."""


def worst(statuses: Iterable[int]) -> int:
    """The status that counts for a command of several parts."""
    return min(statuses, key=WORST_FIRST.index)


class Interrupted(Exception):
    """Ctrl-C or SIGTERM, and what a command reports about it: what is left, and how to resume. Not a
    KeyboardInterrupt, because typer handles those itself."""
