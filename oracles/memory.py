"""The memory oracle says what every byte must be after an operation: from an untouched snapshot, one copy at a time.

It shares no code with any kernel, and refuses cases outside the preconditions (docs/domain.md, section 3). Each kind of
operation has a file of its own under `operations`; this is their registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.case import Advance, Case, Operation, Postprocess, Precopy
from harness.memory import Image, MemoryPlan
from harness.oracles.expected import Expected
from harness.oracles.operations.advance import expect_advance
from harness.oracles.operations.migration import expect_postprocess, expect_precopy

Expectation = Callable[[Case, MemoryPlan, int, Image], Expected]

_EXPECTATIONS: Mapping[type[Operation], Expectation] = {
    Postprocess: expect_postprocess,
    Precopy: expect_precopy,
    Advance: expect_advance,
}


def expect(case: Case, plan: MemoryPlan, index: int, before: Image) -> Expected:
    """Expect operation `index` of a case to run on memory that holds `before`.

    Raises InvalidCase if the operation is outside the preconditions.
    """
    return _EXPECTATIONS[type(case.program[index])](case, plan, index, before)


__all__ = ["Expected", "expect"]
