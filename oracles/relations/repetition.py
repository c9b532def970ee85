"""Repetition: the same call on the same memory does the same thing again.

It detects dependence on timing, on what an earlier call left in the target's own buffers, and on a call being like the
previous one: a run of random cases repeats no call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.oracles.relations.base import (
    CaseVariant,
    Comparison,
    Mismatch,
    Relation,
    ResultMismatch,
    Run,
    whole_memory,
)


class Repetition(Relation):
    name = "repetition"
    summary = "when the call is repeated"

    def variants(self, first: Run) -> Sequence[CaseVariant]:
        return [CaseVariant(first.case)]

    def mismatches(self, first: Run, others: Sequence[Run]) -> Iterator[Mismatch | ResultMismatch]:
        for step in range(len(first.steps)):
            compare = Comparison(first, step, others[0], 0, step)
            yield from compare.ties(whole_memory(first.plan))
            yield from compare.results()
