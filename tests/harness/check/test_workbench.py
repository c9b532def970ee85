"""The arena of a worker on a GPU, which other workers share."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from harness.check.workbench import RESERVED, Workbench


class Lender:
    """An executor on a GPU, as far as arenas go: it lends memory and remembers how much."""

    device = SimpleNamespace(type="cuda")

    def __init__(self) -> None:
        self.lent: list[int] = []

    def allocate(self, size: int) -> Any:
        self.lent.append(size)
        return SimpleNamespace(size=size, discard=lambda start, size: None)

    def shadow(self, arena: Any) -> None:
        return None


def plan(size: int) -> Any:
    return SimpleNamespace(size=size, base=SimpleNamespace(size=size))


def test_memory_for_a_huge_layout_is_given_back_with_the_next_layout() -> None:
    lender = Lender()
    bench = Workbench(None, lender)  # type: ignore[arg-type]
    usual, huge = RESERVED[False], 40 * RESERVED[False]
    small, large = plan(1000), plan(huge)
    assert bench.room_for(small).size == usual
    assert bench.room_for(large).size == huge
    assert bench.room_for(large).size == huge
    assert bench.room_for(plan(huge // 2)).size == huge
    assert bench.room_for(small).size == usual
    assert bench.room_for(plan(2000)).size == usual
    assert lender.lent == [usual, huge, usual]
