"""Parts of batches: common code of relations that split batches or reorder them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.case import SKIP_ROW, Case
from harness.oracles.relations.base import require_operations

replace = msgspec.structs.replace


def require_batches(case: Case) -> None:
    """Raise Undefined if the program has an operation whose batch cannot be split or reordered."""
    require_operations(case, lambda operation: operation.splits_by_request)


def with_table_rows(case: Case, slots: Sequence[int]) -> Case:
    """The same case with the table rows of `slots` in front, in this order, and without others."""
    tables = tuple(tuple(table[slot] if slot < len(table) else () for slot in slots) for table in case.contents.tables)
    return replace(case, contents=replace(case.contents, tables=tables))


def part_of_batch(case: Case, kept: Sequence[int]) -> Case:
    """A case of one operation with only some of its batch rows. V1 rows are renumbered; their table rows move too."""
    (operation,) = case.program
    rows = [operation.rows[i] for i in kept]
    if operation.runner == "V2":
        return replace(case, program=(replace(operation, rows=tuple(rows)),))
    renumbered = tuple(replace(row, slot=slot) for slot, row in enumerate(rows))
    return replace(with_table_rows(case, kept), program=(replace(operation, rows=renumbered),))


def used_slots(case: Case) -> list[int]:
    """The slots of a case's first operation, in batch order, without skipped rows."""
    return [row.slot for row in case.program[0].rows if row.slot != SKIP_ROW]
