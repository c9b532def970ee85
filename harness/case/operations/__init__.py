"""An operation is one call of the system under test, with the numbers of each request in the batch.

One file per kind of operation. Each kind is a tagged struct with `runner`, `rows` (one per request, in batch order) and
`arrays`, the integer arguments it passes. Its tag is its name, and it declares

- `summary`: what it is, in a line (docs/domain.md, sections 3 to 7);
- `depends_on_block_ids`: whether other ids for the same blocks change the bytes that it leaves;
- `splits_by_request`: whether a batch does the same as its requests one after the other, in any order, and all its
  results lie in state memory, in arrays by slot and in accepted counts.

`Operation` is the one list of them.
"""

from __future__ import annotations

from typing import TypeVar, get_args

from harness.case.operations.accepted import FillAccepted, FillAcceptedRow, ScatterAccepted, ScatterAcceptedRow
from harness.case.operations.advance import Advance, AdvanceRow
from harness.case.operations.aligned_indices import AlignedIndices, AlignedIndicesRow
from harness.case.operations.all_mode import AllMode, AllModeRow
from harness.case.operations.arrays import Array
from harness.case.operations.forward import EditTables, Forward, ForwardRow, TableCell
from harness.case.operations.migration import Postprocess, PostprocessRow, Precopy, PrecopyRow
from harness.case.operations.postprocess_entry import PostprocessEntry
from harness.case.operations.preprocess import AbsentRequest, MovePath, Preprocess, PreprocessRow
from harness.case.operations.rows import FRESH, SKIP_ROW, Row, Runner
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

Op = TypeVar("Op", bound=Operation)

OPERATIONS: tuple[type[Operation], ...] = get_args(Operation)


def rows_of(operation: Operation) -> tuple[Row, ...]:
    """The batch rows of any operation."""
    return operation.rows


def operation_name(operation: Op | type[Op]) -> str:
    """The name by which users and files know the kind of an operation."""
    return str(operation.__struct_config__.tag)
