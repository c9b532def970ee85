"""A relation policy says which relations are checked for which cases: a pure function of seed and index, like a case.

A check costs one run or more for each relation. So by default every eighth case is checked until one relation applies,
in a different order each time.
"""

from __future__ import annotations

import msgspec

from harness.generators.draw import RandomDraw

SAMPLED_EVERY = 8


class RelationPolicy(msgspec.Struct, frozen=True):
    """Check `names` for every `every`-th case until `most` of them applied (None: all are checked).

    `required` relations have to apply at least once in a campaign, or it fails.
    """

    names: tuple[str, ...] = ()
    every: int = 1
    most: int | None = None
    required: bool = False

    def at(self, seed: int, index: int) -> tuple[str, ...]:
        """The relations to check for case `index`, in this order."""
        if not self.names or (index + 1) % self.every:
            return ()
        if self.most is None:
            return self.names
        return tuple(RandomDraw(f"{seed}/relations/{index}").permutation(self.names))


def sampled(names: tuple[str, ...]) -> RelationPolicy:
    """One of `names` on every eighth case."""
    return RelationPolicy(names, every=SAMPLED_EVERY, most=1)
