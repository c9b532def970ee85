"""Request order: the rows of a batch are independent of each other, so their order changes nothing.

The batch is reversed. A V2 batch keeps its slots, so only the mapping changes. V1 rows are their slots, so their table
rows and array entries move too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from harness.case import SKIP_ROW, Case, Operation
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
    same_layout,
)
from harness.oracles.relations.batches import require_batches, with_table_rows

replace = msgspec.structs.replace


class RequestOrder(Relation):
    name = "request-order"
    summary = "with the requests of the batch in reverse order"

    def variants(self, first: Run) -> Sequence[CaseVariant]:
        case = first.case
        require_batches(case)
        if all(sum(row.slot != SKIP_ROW for row in operation.rows) < 2 for operation in case.program):
            raise Undefined("no batch has two or more requests")
        lengths = {len(operation.rows) for operation in case.program if operation.runner == "V1"}
        if not lengths:
            return [CaseVariant(replace(case, program=tuple(_reversed(operation) for operation in case.program)))]
        if len(lengths) > 1 or any(operation.runner == "V2" for operation in case.program):
            raise Undefined("operations that share table rows have batches of different lengths or runners")
        return [CaseVariant(_reversed_slots(case, lengths.pop()))]

    def mismatches(self, first: Run, others: Sequence[Run]) -> Iterator[Mismatch | ResultMismatch]:
        (other,) = others
        for step, operation in enumerate(first.case.program):
            compare = Comparison(first, step, other, 0, step)
            if operation.runner == "V1":
                yield from compare.ties(buffers(first.plan))
            else:
                yield from compare.ties(same_layout(first.plan))
                yield from compare.ties(
                    Tie(span.start, span.start, span.size)
                    for span in first.plan.arrays[step].values()
                    if span.by == "slot"
                )
            last = len(operation.rows) - 1
            yield from compare.counts((row, last - row) for row in range(last + 1))


def _reversed(operation: Operation) -> Operation:
    return replace(operation, rows=tuple(reversed(operation.rows)))


def _reversed_slots(case: Case, count: int) -> Case:
    """A V1 case with slots 0 to `count` - 1 in reverse order, including the table rows."""

    def renumbered(operation: Operation) -> Operation:
        rows = tuple(replace(row, slot=slot) for slot, row in enumerate(reversed(operation.rows)))
        return replace(operation, rows=rows)

    return replace(
        with_table_rows(case, list(reversed(range(count)))),
        program=tuple(renumbered(operation) for operation in case.program),
    )
