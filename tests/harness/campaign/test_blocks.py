"""Blocks hand out each case once, whatever was judged before and whichever part of a campaign it is."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from harness.campaign.blocks import Blocks
from harness.campaign.shard import Shard


def taken(blocks: Blocks) -> list[tuple[int, int]]:
    """All of them, in order."""
    found = []
    while (block := blocks.take())[0] != block[1]:
        found.append(block)
    return found


@given(size=st.integers(1, 20), most=st.integers(0, 100), of=st.integers(1, 5), done=st.frozensets(st.integers(0, 110)))
def test_shards_take_each_case_once(size: int, most: int, of: int, done: Collection[int]) -> None:
    found = [taken(Blocks(size, most, Shard(number, of), done)) for number in range(1, of + 1)]
    cases = [case for blocks in found for start, end in blocks for case in range(start, end)]
    assert sorted(cases) == [case for case in range(most) if case not in done]
    for number, blocks in enumerate(found):
        assert all(start // size % of == number and (end - 1) // size == start // size for start, end in blocks)


def test_without_a_number_of_cases_there_is_no_end() -> None:
    blocks = Blocks(16, None, None, {3, 16})
    assert [blocks.take() for _ in range(4)] == [(0, 3), (4, 16), (17, 32), (32, 48)]
