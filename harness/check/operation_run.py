"""An operation run is one operation of a case on a target: the initial memory, what it had to do, and what it did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.accesses import RecordedLaunch
from harness.case import Case, Operation, operation_name
from harness.check.operations.call import Results
from harness.check.raised import Owns, everything
from harness.kernels.executors.base import AccessFault
from harness.memory import Image, MemoryPlan
from harness.oracles.expected import Expected


@dataclass(frozen=True)
class Task:
    """Operation `index` of a case, about to run on memory that holds `before`. `expected` is None where the memory
    oracle is not used."""

    case: Case
    plan: MemoryPlan
    index: int
    before: Image
    expected: Expected | None

    @property
    def operation(self) -> Operation:
        return self.case.program[self.index]

    @property
    def name(self) -> str:
        """The name by which users know the kind of the operation."""
        return operation_name(self.operation)


@dataclass(frozen=True)
class Seen:
    """What the host saw of one operation, before and after it, by name."""

    before: Results
    after: Results
    refused: bool = False
    """Whether the target rejected what it has to reject."""
    late_writes: tuple[str, ...] = ()
    """Buffers that the host wrote while they were on their way to the device."""


@dataclass(frozen=True)
class OperationRun(Task):
    """A task that a target has done. `found` is the case's memory afterwards."""

    found: Image
    seen: Seen
    launches: int = 0
    """How many launches reached the executor."""
    faults: Sequence[AccessFault] = ()
    """Accesses that the executor did not allow."""
    recorded: Sequence[RecordedLaunch] = ()
    """What each launch loaded and stored, where the executor was asked for races."""
    shadows: tuple[Image, Image] | None = None
    """Which bytes are undefined: by the oracle's own trace, and as kernels propagated them; None if not tracked."""
    damaged: Sequence[str] = ()
    """The target's own buffers around which bytes changed."""
    owns: Owns = everything
    """Whether a file is source of the code under test."""
