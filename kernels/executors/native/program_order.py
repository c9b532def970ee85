"""A program order is the order in which the programs of a launch run, one after another.

It does not change the result of a correct kernel. Orders are deterministic: natural (x fastest), reversed, or
shuffled by a seed.
"""

from __future__ import annotations

import functools

import numpy as np

from harness.kernels.executors.base import ProgramOrder

_MASK = (1 << 64) - 1


def check_order(order: ProgramOrder) -> ProgramOrder:
    """`order` itself. Raises ValueError if it is not a program order."""
    if order in ("natural", "reversed"):
        return order
    if isinstance(order, tuple) and len(order) == 2 and order[0] == "shuffled" and isinstance(order[1], int):
        return order
    raise ValueError(f"a program order is 'natural', 'reversed' or ('shuffled', seed), not {order!r}")


def program_ids(order: ProgramOrder, launch: int, programs: int) -> np.ndarray | None:
    """The linear ids of `programs` programs in execution order (int64); None for the natural order.

    `launch` counts the launches of a case: each gets its own shuffle.
    """
    if order == "natural":
        return None
    if order == "reversed":
        return _reversed(programs)
    return _shuffled(order[1], launch, programs)


@functools.lru_cache(maxsize=64)
def _reversed(programs: int) -> np.ndarray:
    return np.arange(programs - 1, -1, -1, dtype=np.int64)


@functools.lru_cache(maxsize=64)
def _shuffled(seed: int, launch: int, programs: int) -> np.ndarray:
    """Ids sorted by a hash of (seed, launch, id): the same on every machine, with every numpy."""
    state = _mixed(_mixed(np.array([seed & _MASK], dtype=np.uint64)) + np.uint64(launch))
    keys = _mixed(_mixed(np.arange(programs, dtype=np.uint64)) ^ state)
    order: np.ndarray = np.argsort(keys, kind="stable").astype(np.int64)
    return order


def _mixed(words: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: a bijection of 64-bit words that leaves no pattern."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = words ^ (words >> np.uint64(31))
    return mixed
