"""Scalar path: copies computed on the host do what the fused kernel does (docs/domain.md, section 7).

Defined where every copy is one contiguous run of bytes: with DS conv states only at bias 0 and without gaps between
rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from harness.case import FRESH, ConvState, Layout, Operation, Precopy, Preprocess, ScalarCopy
from harness.case.operations.results import ACCEPTED_ON_HOST, COLUMNS
from harness.oracles.copies import StateCopy
from harness.oracles.relations.base import (
    CaseVariant,
    Comparison,
    Mismatch,
    Relation,
    ResultMismatch,
    Run,
    Undefined,
    buffers,
)

replace = msgspec.structs.replace


class ScalarPath(Relation):
    name = "scalar-path"
    summary = "by copies computed on the host instead of the fused kernel, or the other way round"

    def variants(self, first: Run) -> Sequence[CaseVariant]:
        case = first.case
        program = tuple(_other_path(operation) for operation in case.program)
        if program == case.program:
            raise Undefined("no operation of the program has both a fused and a scalar path")
        for operation, step in zip(case.program, first.steps, strict=True):
            if _other_path(operation) is not operation:
                _require_whole_windows(case.layout, biases_of_moves(operation, case.layout.block_size))
                _require_no_right_overlap(step.expected.copies if step.expected is not None else ())
        return [CaseVariant(replace(case, program=program))]

    def mismatches(self, first: Run, others: Sequence[Run]) -> Iterator[Mismatch | ResultMismatch]:
        for step in range(len(first.steps)):
            compare = Comparison(first, step, others[0], 0, step)
            yield from compare.ties(buffers(first.plan))
            if isinstance(first.case.program[step], Preprocess):  # only the fused path stages values
                yield from compare.results(COLUMNS, ACCEPTED_ON_HOST)
            else:
                yield from compare.results()


def _other_path(operation: Operation) -> Operation:
    """The same operation by the other path; unchanged if it has only one."""
    if isinstance(operation, Precopy) and operation.runner == "V1":
        return ScalarCopy(rows=operation.rows)
    if isinstance(operation, ScalarCopy) and not operation.within_blocks:  # precopy never moves inside a block
        return Precopy(runner="V1", rows=operation.rows)
    if isinstance(operation, Preprocess):
        return replace(operation, path="fused" if operation.path == "scalar" else "scalar")
    return operation


def biases_of_moves(operation: Operation, block_size: int) -> list[int]:
    """The bias of each row that moves."""
    if isinstance(operation, Preprocess):
        return [
            row.accepted - 1
            for row in operation.rows
            if row.source_column(block_size) not in (FRESH, row.destination_column(block_size))
        ]
    if isinstance(operation, ScalarCopy):
        return [row.bias for row in operation.rows if operation.moves(row)]
    assert isinstance(operation, Precopy)
    return [row.bias for row in operation.rows if row.source_column not in (FRESH, row.destination_column)]


def _require_whole_windows(layout: Layout, biases: Sequence[int]) -> None:
    """Raise Undefined if a DS window moves that is not one contiguous run of bytes."""
    for _, state in layout.states():
        if biases and isinstance(state, ConvState) and state.row_stride is not None:
            if any(biases):
                raise Undefined("DS windows move by a bias")
            if state.row_stride != state.window * state.item_size:
                raise Undefined("DS rows have gaps between them")


def _require_no_right_overlap(copies: Iterable[StateCopy]) -> None:
    for copy in copies:
        if copy.source < copy.destination < copy.source + copy.span:
            raise Undefined("a copy overlaps its source from above")
