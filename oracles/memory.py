"""The memory oracle says what every byte must be after an operation: from an untouched snapshot, one copy at a time.

It shares no code with any kernel. It also says how much work it expects, so that a target that did nothing is told
from one that had nothing to do, and it refuses cases outside the preconditions (docs/domain.md, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.case import Case, InvalidCase, Postprocess
from harness.memory import Image, MemoryPlan
from harness.oracles.copies import StateCopy, copy_of_state
from harness.oracles.decisions import decide


@dataclass(frozen=True)
class Expected:
    """What one operation must leave behind.

    `image` is the case's whole memory; `accepted_out` the V1 result by batch row (None for other operations);
    `copies` the state copies that must happen, `resets` the number of accepted counts that change.
    """

    image: Image
    accepted_out: list[int] | None
    copies: list[StateCopy]
    resets: int

    @property
    def expects_work(self) -> bool:
        """Whether a launch must happen."""
        return bool(self.copies) or self.resets > 0


def expect(case: Case, plan: MemoryPlan, index: int, before: Image) -> Expected:
    """Expect operation `index` of a case to run on memory that holds `before`.

    Raises InvalidCase if the operation is outside the preconditions.
    """
    operation = case.program[index]
    decisions = decide(operation, case.layout.block_size)
    copies = []
    for row, decision in enumerate(decisions):
        if decision is None or decision.move is None:
            continue
        for place in plan.base.states:
            copy = copy_of_state(
                case.layout,
                place,
                row,
                decision.slot,
                decision.move,
                lambda group, slot, column: before.cell(plan.base.table_cell(group, slot, column)),
            )
            if copy is not None:
                copies.append(copy)
    _refuse_conflicts(copies)

    after = before.copy()
    for copy in copies:
        source, destination = before.view(copy.source, copy.span), after.view(copy.destination, copy.span)
        for run in range(copy.runs):
            first = run * copy.run_stride
            destination[first : first + copy.run_bytes] = source[first : first + copy.run_bytes]

    accepted_out = None
    resets = 0
    if isinstance(operation, Postprocess):
        decided = [d for d in decisions if d is not None]
        counts = [0 if d.accepted is None else d.accepted for d in decided]
        resets = sum(
            row.accepted != decision.accepted
            for row, decision in zip(operation.rows, decisions, strict=True)
            if decision is not None
        )
        if operation.runner == "V1":
            accepted_out = counts
        else:
            span = plan.arrays[index]["accepted"]
            after.view(span.start, span.size).view(np.int32)[[d.slot for d in decided]] = counts
    return Expected(after, accepted_out, copies, resets)


def _refuse_conflicts(copies: list[StateCopy]) -> None:
    """Raise InvalidCase if a program of the launch writes a byte that another one reads or writes.

    A copy's own source and destination may overlap; DS rows count with the gaps between them.
    """
    spans = [(copy.destination, copy.destination + copy.span, i, True) for i, copy in enumerate(copies)]
    spans += [(copy.source, copy.source + copy.span, i, False) for i, copy in enumerate(copies)]
    spans.sort()
    # Sweep from low to high: `ends` holds, for writes and reads, the two furthest ends by different copies.
    furthest_write = furthest_read = (-1, -1)
    second_write = second_read = (-1, -1)
    for start, end, i, is_write in spans:
        for far, rival in ((furthest_write, second_write), *(((furthest_read, second_read),) if is_write else ())):
            reach, by = far if far[1] != i else rival
            if by != -1 and reach > start:
                rows = sorted({copies[by].row, copies[i].row})
                raise InvalidCase(
                    f"batch rows {' and '.join(map(str, rows))}: one copy writes bytes that another one uses"
                )
        if is_write:
            furthest_write, second_write = _push(furthest_write, second_write, (end, i))
        else:
            furthest_read, second_read = _push(furthest_read, second_read, (end, i))


def _push(
    first: tuple[int, int], second: tuple[int, int], new: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Keep the furthest end, and the furthest end of any other copy."""
    if new[1] == first[1]:
        return (max(first, new), second)
    if new[0] > first[0]:
        return (new, first)
    return (first, max(second, new))
