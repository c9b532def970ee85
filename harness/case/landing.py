"""A landing is where a step leaves the state of a request that has to be kept: at the last block boundary it reached.

This is plain arithmetic on one request (docs/domain.md, section 3), for code that generates, describes or shrinks
cases. The memory oracle does not use it: `oracles/decisions.py` states the same rule again, independently.
"""

from __future__ import annotations

from typing import NamedTuple


class Landing(NamedTuple):
    """The column that the kept state belongs in, and how many tokens past the running state it lies."""

    column: int
    bias: int


def landing(running: int, accepted: int, block_size: int) -> Landing | None:
    """Where the state of a request lands. The request has `running` tokens up to and including the first, always-kept
    one, and `accepted` tokens including that one. None if no block boundary lies from there to the last accepted token.
    """
    aligned = (running + accepted - 1) // block_size * block_size
    if aligned < running:
        return None
    return Landing(aligned // block_size - 1, aligned - running)
