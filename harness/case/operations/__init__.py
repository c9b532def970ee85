"""An operation is one call of the system under test, with the numbers of each request in the batch.

One file per kind of operation. Each kind is a tagged struct with `runner`, `rows` (one per request, in batch order) and
`arrays`, the integer arguments it hands over; adding one is a new file and its place in `Operation`.
"""

from __future__ import annotations

from harness.case.operations.advance import Advance, AdvanceRow
from harness.case.operations.arrays import Array
from harness.case.operations.migration import Postprocess, PostprocessRow, Precopy, PrecopyRow
from harness.case.operations.rows import FRESH, SKIP_ROW, Runner

Operation = Postprocess | Precopy | Advance
Row = PostprocessRow | PrecopyRow | AdvanceRow


def rows_of(operation: Operation) -> tuple[Row, ...]:
    """The batch rows of an operation, whichever it is."""
    return operation.rows


def operation_name(operation: Operation) -> str:
    """The name by which users know the kind of an operation."""
    return str(operation.__struct_config__.tag)


__all__ = [
    "FRESH",
    "SKIP_ROW",
    "Advance",
    "AdvanceRow",
    "Array",
    "Operation",
    "Postprocess",
    "PostprocessRow",
    "Precopy",
    "PrecopyRow",
    "Row",
    "Runner",
    "operation_name",
    "rows_of",
]
