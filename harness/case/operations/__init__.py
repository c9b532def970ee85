"""An operation is one call of the system under test, with the numbers of each request in the batch.

One file per kind of operation. Each kind is a tagged struct with `runner`, `rows` (one per request, in batch order) and
`arrays`, the integer arguments it hands over; adding one is a new file and its place in `Operation`.
"""

from __future__ import annotations

from harness.case.operations.accepted import FillAccepted, FillAcceptedRow, ScatterAccepted, ScatterAcceptedRow
from harness.case.operations.advance import Advance, AdvanceRow
from harness.case.operations.aligned_indices import AlignedIndices, AlignedIndicesRow
from harness.case.operations.all_mode import AllMode, AllModeRow
from harness.case.operations.arrays import Array
from harness.case.operations.forward import EditTables, Forward, ForwardRow, TableCell
from harness.case.operations.migration import Postprocess, PostprocessRow, Precopy, PrecopyRow
from harness.case.operations.postprocess_entry import PostprocessEntry
from harness.case.operations.preprocess import AbsentRequest, MovePath, Preprocess, PreprocessRow
from harness.case.operations.rows import FRESH, SKIP_ROW, Runner
from harness.case.operations.scalar_copy import ScalarCopy
from harness.case.operations.stage import Stage, StageRow

Operation = (
    Postprocess
    | Precopy
    | Advance
    | AlignedIndices
    | Stage
    | ScalarCopy
    | PostprocessEntry
    | ScatterAccepted
    | FillAccepted
    | Preprocess
    | AllMode
    | Forward
    | EditTables
)
Row = (
    PostprocessRow
    | PrecopyRow
    | AdvanceRow
    | AlignedIndicesRow
    | StageRow
    | ScatterAcceptedRow
    | FillAcceptedRow
    | PreprocessRow
    | AllModeRow
    | ForwardRow
)


def rows_of(operation: Operation) -> tuple[Row, ...]:
    """The batch rows of an operation, whichever it is."""
    return operation.rows


def operation_name(operation: Operation) -> str:
    """The name by which users know the kind of an operation."""
    return str(operation.__struct_config__.tag)


__all__ = [
    "FRESH",
    "SKIP_ROW",
    "AbsentRequest",
    "Advance",
    "AdvanceRow",
    "AlignedIndices",
    "AlignedIndicesRow",
    "AllMode",
    "AllModeRow",
    "Array",
    "EditTables",
    "FillAccepted",
    "FillAcceptedRow",
    "Forward",
    "ForwardRow",
    "MovePath",
    "Operation",
    "Postprocess",
    "PostprocessEntry",
    "PostprocessRow",
    "Precopy",
    "PrecopyRow",
    "Preprocess",
    "PreprocessRow",
    "Row",
    "Runner",
    "ScalarCopy",
    "ScatterAccepted",
    "ScatterAcceptedRow",
    "Stage",
    "StageRow",
    "TableCell",
    "operation_name",
    "rows_of",
]
