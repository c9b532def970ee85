"""The language: layouts, operations and cases as plain typed data, validated on the way in.

The floor that every room stands on: it imports nothing from the other rooms, and neither torch nor triton.
"""

from harness.case.case import CASE_VERSION, Case, Contents, Domain, decode_case, encode_case
from harness.case.execution import Execution, ProgramOrder
from harness.case.layout import (
    Buffer,
    ConvLayout,
    ConvState,
    Group,
    Layer,
    Layout,
    State,
    TemporalState,
    state_extent,
)
from harness.case.operations import (
    FRESH,
    SKIP_ROW,
    Advance,
    AdvanceRow,
    Array,
    Operation,
    Postprocess,
    PostprocessRow,
    Precopy,
    PrecopyRow,
    Row,
    Runner,
    operation_name,
    rows_of,
)
from harness.case.problem import InvalidCase

__all__ = [
    "CASE_VERSION",
    "FRESH",
    "SKIP_ROW",
    "Advance",
    "AdvanceRow",
    "Array",
    "Buffer",
    "Case",
    "Contents",
    "ConvLayout",
    "ConvState",
    "Domain",
    "Execution",
    "Group",
    "InvalidCase",
    "Layer",
    "Layout",
    "Operation",
    "Postprocess",
    "PostprocessRow",
    "Precopy",
    "PrecopyRow",
    "ProgramOrder",
    "Row",
    "Runner",
    "State",
    "TemporalState",
    "decode_case",
    "encode_case",
    "operation_name",
    "rows_of",
    "state_extent",
]
