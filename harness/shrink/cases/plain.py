"""A plain request has the least numbers with which an operation does one of the things it can do.

Many small cases cannot be made smaller number by number, yet show the same fault: proposing plain requests, with fresh
tables, makes them the same case.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from harness.case import Case, Row
from harness.generators.kinds.registry import kind_of
from harness.shrink.cases import edits
from harness.shrink.cases.edits import replace
from harness.shrink.proposals import Proposal


def plain_requests(case: Case) -> Iterator[Proposal[Case]]:
    """The plain requests of a case's one operation, in place of its one request: those that are plainer than it."""
    if len(case.program) != 1 or len(case.program[0].rows) != 1:
        return
    (operation,) = case.program
    (row,) = operation.rows
    # Some faults need a request whose slot is not its place in the batch.
    slots = (0,) if operation.runner == "V1" or row.slot < 1 else (0, 1)
    for block_size, num_spec, plain, columns in kind_of(operation).plain:
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
