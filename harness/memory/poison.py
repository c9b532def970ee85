"""Poison is what bytes hold that nobody has written: guards, padding, gaps.

It depends on the position, so that padding copied onto padding shows. Pattern B is the complement of pattern A: a
byte that reads the same under both patterns was not poison.
"""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np
from numpy.typing import NDArray

# A prime, so that no stride of a real layout (a multiple of small powers) sees the same poison twice.
_PERIOD = 1048573


@functools.cache
def _table(pattern: Literal["A", "B"]) -> NDArray[np.uint8]:
    table = np.frombuffer(np.random.Generator(np.random.PCG64(20)).bytes(_PERIOD), dtype=np.uint8)
    return table if pattern == "A" else np.bitwise_not(table)


def poison_bytes(pattern: Literal["A", "B"], offset: int, size: int) -> NDArray[np.uint8]:
    """Poison for bytes `[offset, offset + size)` of an arena. Read-only if it comes from one period."""
    table = _table(pattern)
    first = offset % _PERIOD
    if first + size <= _PERIOD:
        return table[first : first + size]
    return np.take(table, np.arange(first, first + size), mode="wrap")
