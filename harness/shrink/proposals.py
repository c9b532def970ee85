"""A proposal is one smaller version of a case, made on demand; a pass yields proposals, boldest first.

Proposals are pure functions of the case, so shrinking is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

Case = TypeVar("Case")

Proposal = Callable[[], Case]
"""Makes a candidate; raises ValueError, such as InvalidCase, if there is none."""


class Pass(Protocol[Case]):
    """A function of a case, with the name that reports show."""

    __name__: str

    def __call__(self, case: Case, /) -> Iterator[Proposal[Case]]: ...


def toward(value: int, least: int) -> Iterator[int]:
    """Numbers from `least` to below `value`, boldest first: the least, its successor, halfway steps, then one less."""
    seen = set()
    for number in (least, least + 1, (value + least) // 2, value - 1):
        if least <= number < value and number not in seen:
            seen.add(number)
            yield number


def down_to_one(value: int) -> Iterator[int]:
    """Steps of at most `value`, boldest first."""
    while value >= 1:
        yield value
        value //= 2
