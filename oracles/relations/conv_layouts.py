"""Conv layouts: SD and DS are two orders of the same elements (docs/domain.md, section 5).

Every conv state takes the other form in place, with its elements transposed. Rows in DS form have no gaps, so that no
state grows. The strides of blocks and the places of everything else are unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.case import Case, ConvState, Forward, Group, Layer, Layout, Preprocess, ScalarCopy, State
from harness.memory import Image, MemoryPlan, StatePlace
from harness.oracles.relations.base import (
    CaseVariant,
    Comparison,
    Mismatch,
    Relation,
    ResultMismatch,
    Run,
    Tie,
    Undefined,
)
from harness.oracles.relations.scalar_path import biases_of_moves

replace = msgspec.structs.replace

Bytes = NDArray[np.uint8]


class ConvLayouts(Relation):
    name = "conv-layouts"
    summary = "with conv states in the other layout, their data transposed"

    def variants(self, first: Run) -> Sequence[CaseVariant]:
        case = first.case
        for operation in case.program:
            listed = isinstance(operation, ScalarCopy) or (
                isinstance(operation, Preprocess) and operation.path == "scalar"
            )
            if listed and any(biases_of_moves(operation, case.layout.block_size)):
                raise Undefined("the scalar path does not support DS windows that move by a bias")
        copies = [copy for step in first.steps if step.expected is not None for copy in step.expected.copies]
        if not any(isinstance(copy.place.state, ConvState) for copy in copies):
            raise Undefined("no conv state moves")
        used = {(copy.place.group, block) for copy in copies for block in (copy.source_block, copy.destination_block)}
        written = {index: _written_blocks(first, index) for index in range(len(case.program))}
        used |= {touched for index in range(len(case.program)) for touched in _touched_blocks(first, index)}
        if any(_group_of(case, block) != group for group, block in used):
            raise Undefined("groups that share memory use the same block, which can be transposed for one of them only")
        other = _transposed_layout(case.layout)

        def transpose(plan: MemoryPlan, image: Image, earlier: Sequence[Run]) -> None:
            for here, there, block in _conv_blocks(case, first.plan, plan):
                elements = _elements(first.before, here, block)
                _elements(image, there, block)[:] = elements.transpose(1, 0, 2)

        def write_transposed(index: int, plan: MemoryPlan, image: Image) -> None:
            """Let the forward pass leave the same elements as in the first run."""
            for here, block in written[index]:
                there = plan.base.states[first.plan.base.states.index(here)]
                elements = _elements(first.steps[index].image, here, block)
                _elements(image, there, block)[:] = elements.transpose(1, 0, 2)

        return [CaseVariant(replace(case, layout=other), prepare=transpose, amend=write_transposed)]

    def mismatches(self, first: Run, others: Sequence[Run]) -> Iterator[Mismatch | ResultMismatch]:
        (other,) = others
        temporal = list(_temporal_ties(first.case, first.plan))
        for step in range(len(first.steps)):
            compare = Comparison(first, step, other, 0, step)
            for here, there, block in _conv_blocks(first.case, first.plan, other.plan):
                yield from _transposed_mismatches(compare, here, there, block)
            yield from compare.ties(temporal)
            yield from compare.ties(_array_ties(first.plan, other.plan, step))
            yield from compare.results()


def _transposed_layout(layout: Layout) -> Layout:
    target = "SD" if layout.conv_layout == "DS" else "DS"

    def change(state: State) -> State:
        if not isinstance(state, ConvState):
            return state
        return replace(state, row_stride=None if target == "SD" else state.window * state.item_size)

    groups = tuple(
        Group(layers=tuple(Layer(states=tuple(change(state) for state in layer.states)) for layer in group.layers))
        for group in layout.groups
    )
    return replace(layout, conv_layout=target, groups=groups)


def _written_blocks(first: Run, index: int) -> list[tuple[StatePlace, int]]:
    """The conv states and blocks that the forward pass of operation `index` wrote; none for other operations."""
    operation = first.case.program[index]
    if not isinstance(operation, Forward):
        return []
    plan, image = first.plan.base, first.steps[index].image
    return [
        (place, image.cell(plan.table_cell(place.group, row.slot, row.column)))
        for row in operation.rows
        for place in plan.states
        if isinstance(place.state, ConvState)
    ]


def _touched_blocks(first: Run, index: int) -> Iterator[tuple[int, int]]:
    """Group and block of everything that the forward pass of operation `index` wrote, those of drafts included: an
    edit of the tables may have given a block to another group."""
    operation = first.case.program[index]
    if isinstance(operation, Forward):
        plan, image = first.plan.base, first.steps[index].image
        for row in operation.rows:
            for group in range(len(first.case.layout.groups)):
                for column in range(row.column, row.column + row.draft + 1):
                    yield group, image.cell(plan.table_cell(group, row.slot, column))


def _group_of(case: Case, block: int) -> int:
    """The group whose elements a block holds: its owner, where groups share memory."""
    return case.contents.owners[block] if len(case.layout.groups) > 1 else 0


def _conv_blocks(case: Case, plan: MemoryPlan, other: MemoryPlan) -> Iterator[tuple[StatePlace, StatePlace, int]]:
    """Each conv state and block of its group, in both plans."""
    for here, there in zip(plan.base.states, other.base.states, strict=True):
        if isinstance(here.state, ConvState):
            for block in range(case.layout.num_blocks):
                if _group_of(case, block) == here.group:
                    yield here, there, block


def _elements(image: Image, place: StatePlace, block: int) -> Bytes:
    """A view of one block of a conv state: `[window, dim, bytes]` in SD form, `[dim, window, bytes]` in DS form."""
    state = place.state
    assert isinstance(state, ConvState)
    data = image.view(place.block(block), place.extent)
    item = state.item_size
    if state.row_stride is None:
        return data.reshape(state.window, state.dim, item)
    strides = (state.row_stride, item, 1)
    return np.lib.stride_tricks.as_strided(data, (state.dim, state.window, item), strides)


def _transposed_mismatches(compare: Comparison, here: StatePlace, there: StatePlace, block: int) -> Iterator[Mismatch]:
    mine = _elements(compare.here, here, block)
    theirs = _elements(compare.there, there, block).transpose(1, 0, 2)
    if np.array_equal(mine, theirs):
        return
    for index in np.argwhere((mine != theirs).any(axis=2)).tolist():
        outer, inner = index
        yield Mismatch(
            compare.step,
            _element_offset(here, block, outer, inner),
            compare.variant,
            compare.variant_step,
            _element_offset(there, block, inner, outer),
            here.state.item_size,
        )


def _element_offset(place: StatePlace, block: int, outer: int, inner: int) -> int:
    """Arena offset of element `[outer, inner]` of a block, in the form in which it is stored."""
    state = place.state
    assert isinstance(state, ConvState)
    stride = state.dim * state.item_size if state.row_stride is None else state.row_stride
    return place.block(block) + outer * stride + inner * state.item_size


def _temporal_ties(case: Case, plan: MemoryPlan) -> Iterator[Tie]:
    for place in plan.base.states:
        if not isinstance(place.state, ConvState):
            for block in range(case.layout.num_blocks):
                if _group_of(case, block) == place.group:
                    yield Tie(place.block(block), place.block(block), place.extent)


def _array_ties(plan: MemoryPlan, other: MemoryPlan, step: int) -> Iterator[Tie]:
    for name, span in plan.arrays[step].items():
        yield Tie(span.start, other.arrays[step][name].start, span.size)
