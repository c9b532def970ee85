"""A landing is where a step leaves the state of a request that is to be kept: at the last block boundary it reached.

Plain arithmetic on one request (docs/domain.md, section 3), for all that imagine, describe or shrink cases. The memory
oracle does not use it: what it decides is written once more in `oracles/decisions.py`, for itself.
"""

from __future__ import annotations

from typing import NamedTuple


class Landing(NamedTuple):
    """The column that the kept state belongs in, and how many tokens past the running state it is."""

    column: int
    bias: int


def landing(running: int, accepted: int, block_size: int) -> Landing | None:
    """Where the state of a request lands that has `running` tokens up to and including the first, always-kept one,
    and `accepted` with that one. None if no block boundary lies from there to the last accepted token.
    """
    aligned = (running + accepted - 1) // block_size * block_size
    if aligned < running:
        return None
    return Landing(aligned // block_size - 1, aligned - running)
