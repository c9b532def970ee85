"""A relation policy says which relations are asked of which cases: a pure function of seed and index, like the cases.

Asking costs a run or more for each relation, so by default one relation that has something to say is asked of every
eighth case, in another order each time.
"""

from __future__ import annotations

import msgspec

from harness.generators.draw import RandomDraw

SAMPLED_EVERY = 8


class RelationPolicy(msgspec.Struct, frozen=True):
    """Ask `names` of every `every`-th case until `most` of them said something (None: all are asked).

    `required` relations have to say something in the course of a campaign, or it fails.
    """

    names: tuple[str, ...] = ()
    every: int = 1
    most: int | None = None
    required: bool = False

    def at(self, seed: int, index: int) -> tuple[str, ...]:
        """The relations to ask of case `index`, in this order."""
        if not self.names or (index + 1) % self.every:
            return ()
        if self.most is None:
            return self.names
        return tuple(RandomDraw(f"{seed}/relations/{index}").permutation(self.names))


def sampled(names: tuple[str, ...]) -> RelationPolicy:
    """One of `names` on every eighth case."""
    return RelationPolicy(names, every=SAMPLED_EVERY, most=1)
