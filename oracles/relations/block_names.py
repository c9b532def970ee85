"""Block names: physical block ids are names, so another numbering changes only where the bytes lie.

Ids 1 to n - 1 are reversed, in tables and in owners, and the payload of each block moves with its id; id 0 stays the
null block. Blocks that were in ascending order are then in descending order, far from where they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import msgspec

from harness.case import AlignedIndices, Case, Layout, state_extent
from harness.case.operations.results import ALIGNED_INDICES
from harness.memory import Image, MemoryPlan
from harness.oracles.relations.base import (
    CaseVariant,
    Comparison,
    Mismatch,
    Relation,
    ResultMismatch,
    Run,
    Tie,
    Undefined,
    require_operations,
)

replace = msgspec.structs.replace


class BlockNames(Relation):
    name = "block-names"
    summary = "with other ids for the physical blocks, their payload moved along"

    def variants(self, first: Run) -> Sequence[CaseVariant]:
        case = first.case
        require_operations(case, lambda operation: not operation.depends_on_block_ids)
        _require_named_cells(case)
        if case.layout.num_blocks < 3:
            raise Undefined("there is only one block besides the null block")
        _require_one_stride(case.layout)

        def move_payload(plan: MemoryPlan, image: Image, earlier: Sequence[Run]) -> None:
            for tie in _ties(case, plan):
                image.view(tie.other, tie.size)[:] = first.before.view(tie.offset, tie.size)

        return [CaseVariant(_renamed(case), prepare=move_payload)]

    def mismatches(self, first: Run, others: Sequence[Run]) -> Iterator[Mismatch | ResultMismatch]:
        ties = list(_ties(first.case, first.plan))
        for step in range(len(first.steps)):
            compare = Comparison(first, step, others[0], 0, step)
            yield from compare.ties(ties)
            if isinstance(first.case.program[step], AlignedIndices):
                yield from _renamed_results(first, others[0], step)
            else:
                yield from compare.results()


def _renamed_results(first: Run, other: Run, step: int) -> Iterator[ResultMismatch]:
    """Aligned indices are the block ids themselves."""
    theirs = other.steps[step].results[ALIGNED_INDICES]
    for entry, block in first.steps[step].results[ALIGNED_INDICES].items():
        wanted = renamed(block, first.case.layout.num_blocks)
        if theirs[entry] != wanted:
            yield ResultMismatch(step, ALIGNED_INDICES, entry, 0, wanted, theirs[entry])


def _ties(case: Case, plan: MemoryPlan) -> Iterator[Tie]:
    """Each block of each state, where it is and where it will be. Bytes between DS rows move too."""
    for place in plan.base.states:
        for block in range(case.layout.num_blocks):
            yield Tie(place.block(block), place.block(renamed(block, case.layout.num_blocks)), place.extent)


def renamed(block: int, num_blocks: int) -> int:
    """The new id of a block."""
    return num_blocks - block if block else 0


def _renamed(case: Case) -> Case:
    count, contents = case.layout.num_blocks, case.contents
    tables = tuple(
        tuple(tuple(renamed(block, count) for block in cells) for cells in table) for table in contents.tables
    )
    owners = tuple(contents.owners[renamed(block, count)] for block in range(count))
    return replace(case, contents=replace(contents, tables=tables, owners=owners))


def _require_named_cells(case: Case) -> None:
    """Raise Undefined if indices are looked up in stale cells, whose ids are not part of the case."""
    for operation in case.program:
        for row in operation.rows if isinstance(operation, AlignedIndices) else ():
            end = max((row.length - 1) // case.layout.block_size, 0) + 1 + case.layout.num_spec
            for table in case.contents.tables:
                if row.slot >= len(table) or len(table[row.slot]) < end:
                    raise Undefined("indices are looked up in stale cells")


def _require_one_stride(layout: Layout) -> None:
    """Raise Undefined if states that may share bytes have different block strides: then a block of one state cannot
    move without moving parts of several blocks of another."""
    reach = [
        (state.buffer, state.offset, state.offset + (layout.num_blocks - 1) * state.block_stride + state_extent(state))
        for _, state in layout.states()
    ]
    strides = [state.block_stride for _, state in layout.states()]
    for (one, stride), (other, other_stride) in combinations(zip(reach, strides, strict=True), 2):
        apart = one[0] != other[0] or one[2] <= other[1] or other[2] <= one[1]
        if stride != other_stride and not apart:
            raise Undefined("states at different block strides share a buffer")
