"""Noise fills memory: payload where something was written, poison where nothing was.

Both are slices of one table of random bytes whose length is a prime, so that no stride of a layout meets the same bytes
twice: a copy to the wrong place is visible, even of padding onto padding. The table comes from a hash function, not
from a random generator whose stream a library may change: a repro file holds a seed of it.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Literal

import numpy as np
from numpy.typing import NDArray

PERIOD = 4194301


@functools.cache
def _table(purpose: str) -> NDArray[np.uint8]:
    """Random bytes of twice the period, so that any slice of up to a period is contiguous."""
    digest = hashlib.shake_128(f"harness {purpose}".encode()).digest(PERIOD)
    return np.frombuffer(digest + digest, dtype=np.uint8)


@functools.cache
def _complement() -> NDArray[np.uint8]:
    return np.bitwise_not(_table("poison"))


def poison_bytes(pattern: Literal["A", "B"], offset: int, size: int) -> NDArray[np.uint8]:
    """Poison for bytes `[offset, offset + size)` of an arena, read-only.

    Pattern B is the complement of pattern A: a byte that reads the same under both was not poison.
    """
    return _slice(_table("poison") if pattern == "A" else _complement(), offset, size)


def payload_bytes(seed: int, offset: int, size: int) -> NDArray[np.uint8]:
    """Payload of a seed for bytes `[offset, offset + size)` of an arena, read-only."""
    return _slice(_table("payload"), offset + seed * 2654435761, size)


def stale_numbers(seed: int, offset: int, count: int, low: int, high: int) -> NDArray[np.int32]:
    """`count` numbers from `low` to `high`, for a seed and the offset where they will be written."""
    wide = payload_bytes(seed, offset * 3 + 1, count * 4).copy().view(np.uint32)
    return (wide % np.uint32(high - low + 1)).astype(np.int32) + np.int32(low)


def _slice(table: NDArray[np.uint8], offset: int, size: int) -> NDArray[np.uint8]:
    first = offset % PERIOD
    if size <= PERIOD:
        return table[first : first + size]
    return np.resize(np.roll(table[:PERIOD], -first), size)
