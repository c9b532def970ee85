"""The memory oracle says what every byte must be after an operation: from an untouched snapshot, one copy at a time.

It shares no code with any kernel, and refuses cases outside the preconditions (docs/domain.md, section 3). Each kind of
operation has a file of its own under `operations`; this is their registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.case import (
    Advance,
    AlignedIndices,
    AllMode,
    Case,
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
from harness.memory import Image, MemoryPlan
from harness.oracles.expected import Expected
from harness.oracles.operations.accepted import expect_fill, expect_scatter
from harness.oracles.operations.advance import expect_advance
from harness.oracles.operations.aligned_indices import expect_aligned_indices
from harness.oracles.operations.all_mode import expect_all_mode
from harness.oracles.operations.forward import expect_edit_tables, expect_forward
from harness.oracles.operations.migration import expect_postprocess, expect_precopy
from harness.oracles.operations.postprocess_entry import expect_postprocess_entry
from harness.oracles.operations.preprocess import expect_preprocess
from harness.oracles.operations.scalar_copy import expect_scalar_copy
from harness.oracles.operations.stage import expect_stage

Expectation = Callable[[Case, MemoryPlan, int, Image], Expected]

_EXPECTATIONS: Mapping[type[Operation], Expectation] = {
    Postprocess: expect_postprocess,
    Precopy: expect_precopy,
    Advance: expect_advance,
    AlignedIndices: expect_aligned_indices,
    Stage: expect_stage,
    ScalarCopy: expect_scalar_copy,
    PostprocessEntry: expect_postprocess_entry,
    ScatterAccepted: expect_scatter,
    FillAccepted: expect_fill,
    Preprocess: expect_preprocess,
    AllMode: expect_all_mode,
    Forward: expect_forward,
    EditTables: expect_edit_tables,
}


def expect(case: Case, plan: MemoryPlan, index: int, before: Image) -> Expected:
    """Expect operation `index` of a case to run on memory that holds `before`.

    Raises InvalidCase if the operation is outside the preconditions.
    """
    return _EXPECTATIONS[type(case.program[index])](case, plan, index, before)


__all__ = ["Expected", "expect"]
