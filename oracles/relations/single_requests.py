"""Single requests: a batch does the same as its requests one after the other.

Each request gets its own call, on the state memory that the previous call left. No two rows of a batch touch the same
bytes, so their order does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from harness.case import SKIP_ROW, Case, rows_of
from harness.memory import Image, MemoryPlan
from harness.oracles.relations.base import (
    CaseVariant,
    Comparison,
    Mismatch,
    Relation,
    ResultMismatch,
    Run,
    Tie,
    Undefined,
    buffers,
)
from harness.oracles.relations.batches import part_of_batch, require_batches

replace = msgspec.structs.replace

MOST_CALLS = 8
"""Maximum number of calls; the last one takes the rest of a longer batch."""


MOST_STEPS = 24
"""Maximum number of calls for a program of several operations."""


class SingleRequests(Relation):
    name = "single-requests"
    summary = "with a separate call for each request"

    def variants(self, first: Run) -> Sequence[CaseVariant]:
        case = first.case
        require_batches(case)
        if len(case.program) > 1:
            return [CaseVariant(_apart(case))]
        parts = _parts(first)
        if len(parts) < 2:
            raise Undefined("the batch has fewer than two requests")

        def carry_on(plan: MemoryPlan, image: Image, earlier: Sequence[Run]) -> None:
            """Start from the state memory of the previous call."""
            if earlier:
                last = earlier[-1].steps[-1].image
                for tie in buffers(plan):
                    image.view(tie.offset, tie.size)[:] = last.view(tie.offset, tie.size)

        return [CaseVariant(part_of_batch(case, part), prepare=carry_on) for part in parts]

    def mismatches(self, first: Run, others: Sequence[Run]) -> Iterator[Mismatch | ResultMismatch]:
        if len(first.case.program) > 1:
            yield from _apart_mismatches(first, others[0])
            return
        last = len(others) - 1
        yield from Comparison(first, 0, others[last], last, 0).ties(buffers(first.plan))
        for variant, part in enumerate(_parts(first)):
            compare = Comparison(first, 0, others[variant], variant, 0)
            if first.case.program[0].runner == "V1":
                yield from compare.counts((row, at) for at, row in enumerate(part))
            else:
                yield from compare.ties(_slot_ties(compare, part))


def _apart(case: Case) -> Case:
    """The same program with a separate operation for every request of every operation, one after the other."""
    if case.linked or any(operation.runner == "V1" for operation in case.program):
        raise Undefined("a program of several operations shares arrays, or table rows in batch order")
    calls = _calls(case)
    if not calls or len(calls) == len(case.program) or len(calls) > MOST_STEPS:
        raise Undefined(f"the program would be split into {len(calls)} calls")
    program = tuple(replace(case.program[step], rows=(case.program[step].rows[row],)) for step, row in calls)
    return replace(case, program=program)


def _calls(case: Case) -> list[tuple[int, int]]:
    """Operation and batch row of every call."""
    return [
        (step, row)
        for step, operation in enumerate(case.program)
        for row, request in enumerate(rows_of(operation))
        if request.slot != SKIP_ROW
    ]


def _apart_mismatches(first: Run, other: Run) -> Iterator[Mismatch | ResultMismatch]:
    last = len(first.steps) - 1
    yield from Comparison(first, last, other, 0, len(other.steps) - 1).ties(buffers(first.plan))
    for call, (step, row) in enumerate(_calls(first.case)):
        compare = Comparison(first, step, other, 0, call)
        yield from compare.ties(_slot_ties(compare, [row]))


def _slot_ties(compare: Comparison, part: Sequence[int]) -> Iterator[Tie]:
    """Entries of the requests of one call, in every array by slot."""
    rows = rows_of(compare.first.case.program[compare.step])
    theirs = compare.other.plan.arrays[compare.variant_step]
    for name, span in compare.first.plan.arrays[compare.step].items():
        if span.by == "slot":
            for row in part:
                at = rows[row].slot * span.item
                yield Tie(span.start + at, theirs[name].start + at, span.item)


def _parts(first: Run) -> list[list[int]]:
    rows = [i for i, row in enumerate(rows_of(first.case.program[0])) if row.slot != SKIP_ROW]
    parts = [[row] for row in rows[: MOST_CALLS - 1]]
    if rows[MOST_CALLS - 1 :]:
        parts.append(rows[MOST_CALLS - 1 :])
    return parts
