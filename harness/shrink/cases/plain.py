"""A plain request is a canonical one: the smallest numbers with which an operation shows one of its behaviours.

Many small cases show the same fault but cannot be made smaller number by number. Proposing plain requests, with fresh
tables, turns them into the same case.
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
    """The case with its one request replaced by each plain request of its one operation that is simpler."""
    if len(case.program) != 1 or len(case.program[0].rows) != 1:
        return
    (operation,) = case.program
    (row,) = operation.rows
    # Some faults need a request whose slot is not its place in the batch.
    slots = (0,) if operation.runner == "V1" or row.slot < 1 else (0, 1)
    for block_size, num_spec, plain, columns in kind_of(operation).plain:
        if (block_size, *_plainness(plain)) >= (case.layout.block_size, *_plainness(row)):
            continue  # fresh tables and a larger pool are only worth it for simpler numbers
        settings = replace(case.layout, block_size=block_size, num_spec=num_spec)
        for slot in slots:
            asked = edits.with_rows(operation, (replace(plain, slot=slot),))
            yield lambda asked=asked, settings=settings, columns=columns, slot=slot: edits.fill_tables(  # type: ignore[misc]
                replace(case, program=(asked,), layout=settings), columns, slot
            )


def _plainness(row: Row) -> tuple[int, ...]:
    """The sum of all numbers, then each of them; an absent number counts as 0."""
    numbers = [abs(value or 0) for name, value in msgspec.structs.asdict(row).items() if name != "slot"]
    return sum(numbers), *numbers
