"""A plain request has the least numbers with which an operation does one of the things it can do.

Many small cases cannot be made smaller number by number, yet show the same fault: proposing plain requests, with fresh
tables, makes them the same case.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from harness.case import (
    AlignedIndices,
    AlignedIndicesRow,
    Case,
    Postprocess,
    PostprocessRow,
    Precopy,
    PrecopyRow,
    Preprocess,
    PreprocessRow,
    Row,
)
from harness.shrink.cases import edits
from harness.shrink.cases.edits import replace
from harness.shrink.proposals import Proposal

PlainRequest = tuple[int, int, Row, int]
"""Block size and drafts of the model (tokens), the row, and how many columns its table row has."""

# Blocks of one token are for the total domain: the reachable one has the same with two.
_PLAIN: dict[type, tuple[PlainRequest, ...]] = {
    Postprocess: (
        # A whole block without drafts.
        (1, 0, PostprocessRow(slot=0, scheduled=1, computed=0, draft=0, accepted=1, state_column=0), 1),
        (2, 0, PostprocessRow(slot=0, scheduled=1, computed=1, draft=0, accepted=1, state_column=0), 1),
        # From one block to the one before.
        (2, 1, PostprocessRow(slot=0, scheduled=2, computed=1, draft=1, accepted=1, state_column=1), 3),
        # Inside of a block, with an accepted draft.
        (3, 1, PostprocessRow(slot=0, scheduled=2, computed=1, draft=1, accepted=2, state_column=0), 2),
        # Both at once.
        (3, 2, PostprocessRow(slot=0, scheduled=3, computed=1, draft=2, accepted=2, state_column=1), 4),
    ),
    Precopy: (
        (1, 0, PrecopyRow(slot=0, source_column=0, destination_column=1, bias=0), 2),
        (2, 0, PrecopyRow(slot=0, source_column=0, destination_column=1, bias=0), 2),
        (2, 1, PrecopyRow(slot=0, source_column=0, destination_column=1, bias=1), 2),
    ),
    Preprocess: (
        (1, 0, PreprocessRow(slot=0, state_column=0, computed=1, scheduled=1, accepted=1), 2),
        (2, 0, PreprocessRow(slot=0, state_column=0, computed=2, scheduled=1, accepted=1), 2),
        # Resumed, where another column is remembered.
        (1, 0, PreprocessRow(slot=0, state_column=1, resumed=True, computed=1, scheduled=1, accepted=1), 2),
        (1, 0, PreprocessRow(slot=0, state_column=0, resumed=True, computed=2, scheduled=1, accepted=1), 3),
        (2, 0, PreprocessRow(slot=0, state_column=1, resumed=True, computed=2, scheduled=1, accepted=1), 2),
        (2, 0, PreprocessRow(slot=0, state_column=0, resumed=True, computed=4, scheduled=1, accepted=1), 3),
    ),
    AlignedIndices: (
        (1, 0, AlignedIndicesRow(slot=0, length=1), 1),
        (1, 0, AlignedIndicesRow(slot=0, length=1), 2),  # one column to spare
        (1, 0, AlignedIndicesRow(slot=0, length=2), 3),
        (2, 0, AlignedIndicesRow(slot=0, length=1), 1),
        (2, 0, AlignedIndicesRow(slot=0, length=1), 2),
        (2, 0, AlignedIndicesRow(slot=0, length=3), 3),
    ),
}


def plain_requests(case: Case) -> Iterator[Proposal[Case]]:
    """The plain requests of a case's one operation, in place of its one request: those that are plainer than it."""
    if len(case.program) != 1 or len(case.program[0].rows) != 1:
        return
    (operation,) = case.program
    (row,) = operation.rows
    # Some faults need a request whose slot is not its place in the batch.
    slots = (0,) if operation.runner == "V1" or row.slot < 1 else (0, 1)
    for block_size, num_spec, plain, columns in _PLAIN.get(type(operation), ()):
        if (block_size, *_plainness(plain)) >= (case.layout.block_size, *_plainness(row)):
            continue  # fresh tables and a larger pool are worth it for plainer numbers alone
        settings = replace(case.layout, block_size=block_size, num_spec=num_spec)
        for slot in slots:
            asked = edits.with_rows(operation, (replace(plain, slot=slot),))
            yield lambda asked=asked, settings=settings, columns=columns, slot=slot: edits.fill_tables(  # type: ignore[misc]
                replace(case, program=(asked,), layout=settings), columns, slot
            )


def _plainness(row: Row) -> tuple[int, ...]:
    """The sum of all numbers, then each; what is not there is as plain as 0."""
    numbers = [abs(value or 0) for name, value in msgspec.structs.asdict(row).items() if name != "slot"]
    return sum(numbers), *numbers
