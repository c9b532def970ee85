"""The registry of operations: what each kind must leave behind, and how it is run on a target.

`handling` is the only table. A missing operation is a type error, and so is an expectation or a call of another kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, assert_never

from harness.case import (
    Advance,
    AlignedIndices,
    AllMode,
    Case,
    EditTables,
    FillAccepted,
    Forward,
    Op,
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
from harness.check.operations.call import Call, Host, Results, Tensors
from harness.check.operations.forward import HarnessCall
from harness.check.operations.migration import PostprocessCall, PrecopyCall
from harness.check.operations.postprocess_entry import PostprocessEntryCall
from harness.check.operations.preprocess import PreprocessCall
from harness.check.operations.scalar_copy import ScalarCopyCall
from harness.check.operations.stage import StageCall
from harness.kernels.targets.base import Bound
from harness.memory import Image, MemoryPlan
from harness.oracles.before import Before
from harness.oracles.expected import Expectation, Expected
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


class Prepared(Protocol):
    """An operation that is ready to run on a target."""

    def run(self, tensors: Tensors) -> None:
        """Call the target's entry point. Raises what the target raises."""

    def results(self) -> Results:
        """What the host can see now, in addition to the case's memory."""


class Handling(Protocol):
    """What can be done with an operation of any kind."""

    @property
    def by_harness(self) -> bool:
        """Whether no target is involved: memory simply becomes what is expected."""

    @property
    def unbound(self) -> bool:
        """Whether the target must not be bound to memory yet."""

    def expect(self, before: Before) -> Expected:
        """What it must leave behind. Raises InvalidCase if it is outside the preconditions."""

    def prepare(self, bound: Bound, before: Before) -> Prepared:
        """Prepare what the runner and the target keep on the host."""


def handling(operation: Operation) -> Handling:
    """How an operation is handled."""
    match operation:
        case Postprocess():
            return _Handled(operation, expect_postprocess, PostprocessCall())
        case Precopy():
            return _Handled(operation, expect_precopy, PrecopyCall())
        case Advance():
            return _Handled(operation, expect_advance, AdvanceCall())
        case AlignedIndices():
            return _Handled(operation, expect_aligned_indices, AlignedIndicesCall())
        case Stage():
            return _Handled(operation, expect_stage, StageCall())
        case ScalarCopy():
            return _Handled(operation, expect_scalar_copy, ScalarCopyCall())
        case PostprocessEntry():
            return _Handled(operation, expect_postprocess_entry, PostprocessEntryCall())
        case ScatterAccepted():
            return _Handled(operation, expect_scatter, ScatterCall())
        case FillAccepted():
            return _Handled(operation, expect_fill, FillCall())
        case Preprocess():
            return _Handled(operation, expect_preprocess, PreprocessCall())
        case AllMode():
            return _Handled(operation, expect_all_mode, AllModeCall())
        case Forward():
            return _Handled(operation, expect_forward, HarnessCall())
        case EditTables():
            return _Handled(operation, expect_edit_tables, HarnessCall())
        case _:
            assert_never(operation)


def expect(case: Case, plan: MemoryPlan, index: int, before: Image) -> Expected:
    """What operation `index` of a case must leave behind, on memory that holds `before`.

    Raises InvalidCase if the operation is outside the preconditions.
    """
    return handling(case.program[index]).expect(Before(case, plan, index, before))


@dataclass(frozen=True)
class _Handled(Generic[Op, Host]):
    """An operation with the expectation and the call of its kind."""

    operation: Op
    expectation: Expectation[Op]
    call: Call[Op, Host]

    @property
    def by_harness(self) -> bool:
        return self.call.by_harness

    @property
    def unbound(self) -> bool:
        return self.call.unbound(self.operation)

    def expect(self, before: Before) -> Expected:
        return self.expectation(self.operation, before)

    def prepare(self, bound: Bound, before: Before) -> Prepared:
        host = self.call.prepare(bound, self.operation, before)
        return _Prepared(self.call, bound, self.operation, host)


@dataclass(frozen=True)
class _Prepared(Generic[Op, Host]):
    call: Call[Op, Host]
    bound: Bound
    operation: Op
    host: Host

    def run(self, tensors: Tensors) -> None:
        self.call.run(self.bound, self.operation, tensors, self.host)

    def results(self) -> Results:
        return self.call.results(self.bound, self.operation, self.host)
