"""Temporal tiles: the number of programs that share a temporal copy changes nothing (docs/domain.md, section 7).

This applies only to a target that takes the number as a parameter; elsewhere it is a constant of the code under test.
One program does all the work alone, three share it unevenly, twenty are more than most copies need.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.case import TemporalState
from harness.oracles.relations.base import (
    CaseVariant,
    Comparison,
    Mismatch,
    Relation,
    ResultMismatch,
    Run,
    Undefined,
    whole_memory,
)

TILES = (1, 3, 20)


class TemporalTiles(Relation):
    name = "temporal-tiles"
    summary = "with any number of programs for each temporal copy"

    def variants(self, first: Run) -> Sequence[CaseVariant]:
        copies = [copy for step in first.steps if step.expected is not None for copy in step.expected.copies]
        if not any(isinstance(copy.place.state, TemporalState) for copy in copies):
            raise Undefined("no temporal state moves")
        return [CaseVariant(first.case, temporal_tiles=tiles) for tiles in TILES]

    def mismatches(self, first: Run, others: Sequence[Run]) -> Iterator[Mismatch | ResultMismatch]:
        for variant, other in enumerate(others):
            for step in range(len(first.steps)):
                compare = Comparison(first, step, other, variant, step)
                yield from compare.ties(whole_memory(first.plan))
                yield from compare.results()
