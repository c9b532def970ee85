"""A relation is a property of several runs: change a case in a way with a known effect, and compare the results.

The memory oracle judges one run by what the bytes must be. A relation does not need to know that: it runs a case and
one or more variants of it on the same target, and says which bytes of the results have to be equal, by the place they
have in the case and not by their address. It sees what one run cannot show (a result that depends on the number of
programs, on bytes that were never written, on the order of a batch), and it would see a mistake that kernels and the
memory oracle share. The variants are a pure function of the case, so that a repro file needs only the name of the
relation.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.case import Case, Operation, Postprocess, PostprocessEntry, operation_name
from harness.case.operations.results import ACCEPTED_ON_HOST, ACCEPTED_OUT
from harness.memory import Image, MemoryPlan
from harness.oracles.expected import Expected


class Undefined(Exception):
    """The relation says nothing about this case: a skip (`relation-undefined`), never a pass. Its text is one line."""


@dataclass(frozen=True)
class RunStep:
    """The result of one operation: the whole memory, and also what the host sees, by name and entry.

    `expected` is what the memory oracle expected; None for a run that the oracle did not judge.
    """

    image: Image
    results: Mapping[str, Mapping[int, int]]
    expected: Expected | None = None


@dataclass(frozen=True)
class Run:
    """A case, where its memory lay, what that held before, a step for each operation, and the number of launches."""

    case: Case
    plan: MemoryPlan
    before: Image
    steps: Sequence[RunStep]
    launches: int = 0


Prepare = Callable[[MemoryPlan, Image, Sequence[Run]], None]
"""`prepare(plan, image, earlier)` changes, in place, the memory that a variant starts from; `earlier` are the runs of
earlier variants."""


Amend = Callable[[int, MemoryPlan, Image], None]
"""`amend(index, plan, image)` changes, in place, what the harness itself writes to memory for operation `index` of a
variant, where no target is involved: a forward pass."""


@dataclass(frozen=True)
class CaseVariant:
    """A case to run in addition to the first one, and how.

    `prepare` edits the memory that the case describes, `amend` what a forward pass writes. `fresh` runs it in a new
    context whose private memory holds poison pattern B (all others hold A); `temporal_tiles` in a new context with that
    many programs for each temporal copy. `judged` variants must also satisfy the memory oracle.
    """

    case: Case
    prepare: Prepare | None = None
    amend: Amend | None = None
    fresh: bool = False
    temporal_tiles: int | None = None
    judged: bool = False


@dataclass(frozen=True)
class Mismatch:
    """`size` consecutive bytes of the first run that should equal bytes of a variant, and do not.

    `step` is the operation of the first run after which they differ; both offsets are arena offsets.
    """

    step: int
    offset: int
    variant: int
    variant_step: int
    variant_offset: int
    size: int


@dataclass(frozen=True)
class ResultMismatch:
    """A number that the host sees and that differs: entry `entry` of the first run's result `name`."""

    step: int
    name: str
    entry: int
    variant: int
    value: int
    variant_value: int


class Relation(abc.ABC):
    """One way to change a case. `summary` ends the sentence "the result must be the same ..."."""

    name: ClassVar[str]
    summary: ClassVar[str]

    @abc.abstractmethod
    def variants(self, first: Run) -> Sequence[CaseVariant]:
        """The cases to run in addition to the first one, in this order. Raises Undefined."""

    @abc.abstractmethod
    def mismatches(self, first: Run, others: Sequence[Run]) -> Iterator[Mismatch | ResultMismatch]:
        """Where the results do not correspond; `others` are the runs of `variants(first)`."""


@dataclass(frozen=True)
class Tie:
    """`size` bytes at `offset` of one image that must equal those at `other` of another image."""

    offset: int
    other: int
    size: int


@dataclass(frozen=True)
class Comparison:
    """Compares one step of the first run with one step of a variant: tied bytes, and counts."""

    first: Run
    step: int
    other: Run
    variant: int
    variant_step: int

    @property
    def here(self) -> Image:
        return self.first.steps[self.step].image

    @property
    def there(self) -> Image:
        return self.other.steps[self.variant_step].image

    def ties(self, ties: Iterable[Tie]) -> Iterator[Mismatch]:
        """The runs of tied bytes that differ."""
        here, there = self.here, self.there
        for tie in ties:
            mine = here.view(tie.offset, tie.size)
            theirs = there.view(tie.other, tie.size)
            if np.array_equal(mine, theirs):
                continue
            (where,) = np.nonzero(mine != theirs)
            for run in np.split(where, np.nonzero(np.diff(where) > 1)[0] + 1):
                at = int(run[0])
                yield Mismatch(self.step, tie.offset + at, self.variant, self.variant_step, tie.other + at, len(run))

    def results(self, *names: str) -> Iterator[ResultMismatch]:
        """The results that differ, entry by entry, for two runs of the same operation: all, or the named ones. Those of
        the first run are what the oracle gives, in which there may be a view that the target does not have."""
        theirs = self.other.steps[self.variant_step].results
        for name, entries in self.first.steps[self.step].results.items():
            if (names and name not in names) or name not in theirs:
                continue
            for entry, value in entries.items():
                if theirs[name][entry] != value:
                    yield ResultMismatch(self.step, name, entry, self.variant, value, theirs[name][entry])

    def counts(self, rows: Iterable[tuple[int, int]]) -> Iterator[ResultMismatch]:
        """The accepted counts that differ, for pairs of a batch row here and its row there."""
        mine = accepted_counts(self.first, self.step)
        theirs = accepted_counts(self.other, self.variant_step)
        for row, other in rows if mine else ():
            if mine[row] != theirs[other]:
                yield ResultMismatch(self.step, "accepted", row, self.variant, mine[row], theirs[other])


def whole_memory(plan: MemoryPlan) -> Iterator[Tie]:
    """Ties every byte to the one at the same offset: for runs of the same layout with the same arguments."""
    for start, size in plan.covered:
        yield Tie(start, start, size)


def same_layout(plan: MemoryPlan) -> Iterator[Tie]:
    """Ties buffers, tables and the guards between them to the same offsets: for runs of the same layout."""
    for start, size in plan.base.covered:
        yield Tie(start, start, size)


def buffers(plan: MemoryPlan) -> Iterator[Tie]:
    """Ties state buffers and their guards to the same offsets: for layouts that differ only in tables."""
    end = plan.base.tables[0]
    for start, size in plan.base.covered:
        if start < end:
            yield Tie(start, start, min(size, end - start))


def accepted_counts(run: Run, step: int) -> list[int]:
    """The counts after a postprocess, by batch row; 0 for rows that the mapping skips. Empty for other operations."""
    operation = run.case.program[step]
    if isinstance(operation, PostprocessEntry):
        counts = run.steps[step].results[ACCEPTED_ON_HOST]
        return [counts[row] for row in range(len(operation.rows))]
    if not isinstance(operation, Postprocess):
        return []
    if operation.runner == "V1":
        counts = run.steps[step].results[ACCEPTED_OUT]
        return [counts[row] for row in range(len(operation.rows))]
    span = run.plan.arrays[step]["accepted"]
    image = run.steps[step].image
    return [0 if row.slot < 0 else image.cell(span.start + 4 * row.slot) for row in operation.rows]


def require_operations(case: Case, known: Callable[[Operation], bool]) -> None:
    """Raise Undefined if the relation does not know (`known`) an operation of the program."""
    for operation in case.program:
        if not known(operation):
            raise Undefined(f"the relation is not defined for {operation_name(operation)}")
