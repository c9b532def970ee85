"""Identity mapping: the V1 and the V2 runner request the same thing in two forms.

A V1 batch is a V2 batch with the identity as its mapping, also where the V1 runner uses an entry point or its
preprocess, by either path. Conversely, a V2 batch is the V1 batch of the slots it maps to, with their table rows
gathered in batch order. V1 writes accepted counts next to the input, V2 in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from harness.case import (
    FRESH,
    SKIP_ROW,
    Case,
    Operation,
    Postprocess,
    PostprocessEntry,
    Precopy,
    PrecopyRow,
    Preprocess,
    PreprocessRow,
    rows_of,
)
from harness.oracles.relations.base import (
    CaseVariant,
    Comparison,
    Mismatch,
    Relation,
    ResultMismatch,
    Run,
    Undefined,
    buffers,
    require_operations,
)
from harness.oracles.relations.batches import used_slots, with_table_rows

replace = msgspec.structs.replace


class IdentityMapping(Relation):
    name = "identity-mapping"
    summary = "through the other runner's entry point"

    def variants(self, first: Run) -> Sequence[CaseVariant]:
        case = first.case
        forms = Postprocess | Precopy | PostprocessEntry | Preprocess
        require_operations(case, lambda operation: isinstance(operation, forms))
        runners = {operation.runner for operation in case.program}
        if len(runners) > 1:
            raise Undefined("the program has operations of both runners")
        if runners == {"V1"}:
            return [CaseVariant(replace(case, program=tuple(_mapped(case, operation) for operation in case.program)))]
        return [CaseVariant(_gathered(case))]

    def mismatches(self, first: Run, others: Sequence[Run]) -> Iterator[Mismatch | ResultMismatch]:
        for step, operation in enumerate(first.case.program):
            compare = Comparison(first, step, others[0], 0, step)
            yield from compare.ties(buffers(first.plan))
            kept = [i for i, row in enumerate(rows_of(operation)) if row.slot != SKIP_ROW]
            yield from compare.counts((row, at) for at, row in enumerate(kept))


def _mapped(case: Case, operation: Operation) -> Operation:
    """What the V2 runner requests, with the identity as its mapping."""
    if isinstance(operation, PostprocessEntry):
        return Postprocess(runner="V2", rows=operation.rows)
    if isinstance(operation, Preprocess):
        return Precopy(runner="V2", rows=tuple(_move_of(case, row) for row in operation.rows))
    return replace(operation, runner="V2")


def _move_of(case: Case, row: PreprocessRow) -> PrecopyRow:
    size = case.layout.block_size
    source, destination = row.source_column(size), row.destination_column(size)
    if source in (FRESH, destination):
        return PrecopyRow(slot=row.slot, source_column=FRESH, destination_column=0, bias=0)
    return PrecopyRow(slot=row.slot, source_column=source, destination_column=destination, bias=row.accepted - 1)


def _gathered(case: Case) -> Case:
    slots = used_slots(case)

    def renumbered(operation: Operation) -> Operation:
        rows = [row for row in operation.rows if row.slot != SKIP_ROW]
        if [row.slot for row in rows] != slots:
            raise Undefined("the operations have different batches")
        return replace(operation, runner="V1", rows=tuple(replace(row, slot=slot) for slot, row in enumerate(rows)))

    program = tuple(renumbered(operation) for operation in case.program)
    return replace(with_table_rows(case, slots), program=program)
