"""A shard is a part of a campaign for one of several machines: every n-th block of cases of the seed."""

from __future__ import annotations

import re

import msgspec

MOST = 10_000


class Shard(msgspec.Struct, frozen=True):
    """Part `number` (from 1) of `of`."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def has(self, block: int) -> bool:
        """Whether the block with this number, from 0, belongs to it."""
        return block % self.of == self.number - 1

    def count(self, blocks: int) -> int:
        """How many of the first `blocks` belong to it."""
        return len(range(self.number - 1, blocks, self.of))


def parse_shard(text: str) -> Shard:
    """The shard that `2/3` names. Raises ValueError."""
    match = re.fullmatch(r"(\d{1,5})/(\d{1,5})", text.strip())
    if match is None or not 1 <= int(match[1]) <= int(match[2]) <= MOST:
        raise ValueError(f"{text!r} is no shard: write 1/3, 2/3 and 3/3 for three of them")
    return Shard(int(match[1]), int(match[2]))
