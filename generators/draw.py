"""A draw is the source of a generator's choices: a stream of small decisions, each within bounds.

Generators use this interface alone, so that any engine can drive them: random numbers, Hypothesis, a corpus. The
bias towards boundary values is in here and in the generators, not in an engine, so every engine has it. Simpler
choices come first (low integers, the first of a sequence, False), so that an engine that shrinks can use that.
"""

from __future__ import annotations

import abc
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw(abc.ABC):
    """A stream of decisions. An engine provides `integer` and `boolean`; everything else is built from these two."""

    @abc.abstractmethod
    def integer(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included. Raises ValueError if there is none."""

    @abc.abstractmethod
    def boolean(self, probability: float = 0.5) -> bool:
        """True with `probability`."""

    def choice(self, options: Sequence[T]) -> T:
        """One of `options`, all equally likely. Raises ValueError if there are none."""
        return options[self.integer(0, len(options) - 1)]

    def weighted(self, options: Sequence[tuple[T, int]]) -> T:
        """The first part of one of `options`; the second part of each is its weight."""
        total = 0
        for _, weight in options:
            total += weight
        ticket = self.integer(0, total - 1)
        for option, weight in options:
            if ticket < weight:
                return option
            ticket -= weight
        raise ValueError("weights must not be negative")

    def boundary(self, low: int, high: int, interesting: Sequence[int] = ()) -> int:
        """An integer from `low` to `high`, usually near an end or one of `interesting`.

        Interesting values outside the bounds are ignored.
        """
        if high - low < 3:
            return self.integer(low, high)
        ticket = self.integer(0, 7)
        if ticket < 3:
            known = [value for value in interesting if low <= value <= high]
            if known:
                return self.choice(known)
        if ticket < 6:
            return (low, high, low + 1, high - 1)[self.integer(0, 3)]
        return self.integer(low, high)

    def permutation(self, items: Sequence[T]) -> list[T]:
        """All of `items`, in any order."""
        return self.sample(items, len(items))

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different `items`, in any order. Raises ValueError if there are fewer."""
        if not 0 <= count <= len(items):
            raise ValueError(f"cannot take {count} of {len(items)} items")
        pool = list(items)
        last = len(pool) - 1
        for i in range(count):
            j = self.integer(i, last)
            pool[i], pool[j] = pool[j], pool[i]
        return pool[:count]


class RandomDraw(Draw):
    """Decisions from a pseudo-random generator, seeded with the text `seed_text`.

    The same text gives the same decisions in every process and Python version: text seeds and `random()` are the
    two parts of `random.Random` whose sequences Python promises to keep, so everything is built from them.
    """

    def __init__(self, seed_text: str) -> None:
        self._random = random.Random(seed_text).random

    def integer(self, low: int, high: int) -> int:
        if low > high:
            raise ValueError(f"no integer from {low} to {high}")
        return low + int(self._random() * (high - low + 1))

    def boolean(self, probability: float = 0.5) -> bool:
        return self._random() < probability
