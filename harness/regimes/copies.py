"""Questions about one copy that several regimes ask."""

from __future__ import annotations

from harness.case import ConvState
from harness.regimes.facts import Copy


def is_temporal(copy: Copy) -> bool:
    """Whether a temporal state is copied."""
    return not isinstance(copy.state, ConvState)


def differ(copy: Copy) -> bool:
    """Whether it goes from one block to another."""
    return origin(copy) != copy.block_move.destination_block


def origin(copy: Copy) -> int:
    """The block it is taken from."""
    return copy.block_move.spec_block if is_temporal(copy) else copy.block_move.source_block
