"""The registry of calls: one line for each kind of operation."""

from __future__ import annotations

from collections.abc import Mapping

from harness.case import (
    Advance,
    AlignedIndices,
    AllMode,
    EditTables,
    FillAccepted,
    Forward,
    Operation,
    Postprocess,
    PostprocessEntry,
    Precopy,
    Preprocess,
    ScalarCopy,
    ScatterAccepted,
    Stage,
)
from harness.check.operations.accepted import FillCall, ScatterCall
from harness.check.operations.advance import AdvanceCall
from harness.check.operations.aligned_indices import AlignedIndicesCall
from harness.check.operations.all_mode import AllModeCall
from harness.check.operations.call import Call
from harness.check.operations.forward import HarnessCall
from harness.check.operations.migration import PostprocessCall, PrecopyCall
from harness.check.operations.postprocess_entry import PostprocessEntryCall
from harness.check.operations.preprocess import PreprocessCall
from harness.check.operations.scalar_copy import ScalarCopyCall
from harness.check.operations.stage import StageCall

_CALLS: Mapping[type[Operation], Call] = {
    Postprocess: PostprocessCall(),
    Precopy: PrecopyCall(),
    Advance: AdvanceCall(),
    AlignedIndices: AlignedIndicesCall(),
    Stage: StageCall(),
    ScalarCopy: ScalarCopyCall(),
    PostprocessEntry: PostprocessEntryCall(),
    ScatterAccepted: ScatterCall(),
    FillAccepted: FillCall(),
    Preprocess: PreprocessCall(),
    AllMode: AllModeCall(),
    Forward: HarnessCall(),
    EditTables: HarnessCall(),
}


def call_of(operation: Operation) -> Call:
    """How operations of this kind are called."""
    return _CALLS[type(operation)]
