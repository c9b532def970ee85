"""Single requests: a batch does what its requests do one after the other.

Each request gets a call of its own, on the state memory that the call before it left. No two rows of a batch touch the
same bytes, so their order does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.case import SKIP_ROW, rows_of
from harness.memory import Image, MemoryPlan
from harness.oracles.relations.base import (
    Comparison,
    Mismatch,
    Relation,
    ResultMismatch,
    Run,
    Tie,
    Undefined,
    Variant,
    buffers,
    require_operations,
)
from harness.oracles.relations.batches import BATCHES, part_of_batch

MOST_CALLS = 8
"""Of a longer batch the last call does the rest."""


class SingleRequests(Relation):
    name = "single-requests"
    summary = "with a call of its own for each request"

    def variants(self, first: Run) -> Sequence[Variant]:
        case = first.case
        require_operations(case, *BATCHES)
        if len(case.program) > 1:
            raise Undefined("the program has more than one operation")
        parts = _parts(first)
        if len(parts) < 2:
            raise Undefined("the batch has fewer than two requests")

        def carry_on(plan: MemoryPlan, image: Image, earlier: Sequence[Run]) -> None:
            """Start from the state memory of the call before."""
            if earlier:
                last = earlier[-1].steps[-1].image
                for tie in buffers(plan):
                    image.view(tie.offset, tie.size)[:] = last.view(tie.offset, tie.size)

        return [Variant(part_of_batch(case, part), prepare=carry_on) for part in parts]

    def mismatches(self, first: Run, others: Sequence[Run]) -> Iterator[Mismatch | ResultMismatch]:
        last = len(others) - 1
        yield from Comparison(first, 0, others[last], last, 0).ties(buffers(first.plan))
        for variant, part in enumerate(_parts(first)):
            compare = Comparison(first, 0, others[variant], variant, 0)
            if first.case.program[0].runner == "V1":
                yield from compare.counts((row, at) for at, row in enumerate(part))
            else:
                yield from compare.ties(_slot_ties(first, others[variant], part))


def _slot_ties(first: Run, other: Run, part: Sequence[int]) -> Iterator[Tie]:
    """Entries of the requests of one call, in every array by slot."""
    rows = rows_of(first.case.program[0])
    for name, span in first.plan.arrays[0].items():
        if span.by == "slot":
            for row in part:
                at = rows[row].slot * span.item
                yield Tie(span.start + at, other.plan.arrays[0][name].start + at, span.item)


def _parts(first: Run) -> list[list[int]]:
    rows = [i for i, row in enumerate(rows_of(first.case.program[0])) if row.slot != SKIP_ROW]
    parts = [[row] for row in rows[: MOST_CALLS - 1]]
    if rows[MOST_CALLS - 1 :]:
        parts.append(rows[MOST_CALLS - 1 :])
    return parts
