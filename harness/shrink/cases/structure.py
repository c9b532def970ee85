"""Passes over a case's structure: fewer operations, requests, groups and states, simpler operations."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case import SKIP_ROW, Case, Postprocess, Precopy
from harness.generators.kinds.registry import kind_of
from harness.shrink.cases import edits
from harness.shrink.cases.edits import Where, replace
from harness.shrink.proposals import Proposal


def fewer_operations(case: Case) -> Iterator[Proposal[Case]]:
    """A single operation, then all but one."""
    count = len(case.program)
    if count == 1:
        return
    for i in range(count):
        yield lambda i=i: replace(case, program=(case.program[i],))  # type: ignore[misc]
    for i in range(count if count > 2 else 0):
        yield lambda i=i: replace(case, program=case.program[:i] + case.program[i + 1 :])  # type: ignore[misc]


def fewer_requests(case: Case) -> Iterator[Proposal[Case]]:
    """One row alone, then halves, then all but one."""
    for index, operation in enumerate(case.program):
        count = len(operation.rows)
        if count < 2:
            continue
        choices = [[i] for i in range(count)] if count <= 8 else []
        choices += [list(range(count // 2)), list(range(count // 2, count))] if count > 2 else []
        choices += [[j for j in range(count) if j != i] for i in range(count)] if 2 < count <= 16 else []
        for kept in choices:
            yield lambda index=index, kept=kept: edits.keep_rows(case, index, kept)  # type: ignore[misc]


def fewer_groups(case: Case) -> Iterator[Proposal[Case]]:
    """All but one group, from the last to the first."""
    if len(case.layout.groups) > 1:
        for group in reversed(range(len(case.layout.groups))):
            yield lambda group=group: edits.remove_group(case, group)  # type: ignore[misc]


def fewer_states(case: Case) -> Iterator[Proposal[Case]]:
    """No extra tensors, or one; then one state per group (every choice for one group at a time), then all but one."""
    extras = sum(1 for _ in case.layout.extras())
    if extras:
        yield lambda: edits.keep_extras(case, lambda number: False)
    for only in range(extras if extras > 1 else 0):
        yield lambda only=only: edits.keep_extras(case, lambda number: number == only)  # type: ignore[misc]
    everything = [where for where, _ in case.layout.states()]
    by_group: dict[int, list[Where]] = {}
    for where in everything:
        by_group.setdefault(where[0], []).append(where)
    for group, mine in by_group.items():
        if len(mine) == 1:
            continue
        others = {where for where in everything if where[0] != group}
        for where in mine:
            yield lambda others=others, where=where: edits.keep_states(case, others | {where})  # type: ignore[misc]
        for where in mine if len(mine) > 2 else ():
            yield lambda where=where: edits.keep_states(case, set(everything) - {where})  # type: ignore[misc]


def simpler_runner(case: Case) -> Iterator[Proposal[Case]]:
    """Slots in order of appearance, from 0 or 1 on; then the V1 form, which has no mapping."""
    yield lambda: edits.renumber_slots(case)
    slots = {row.slot for operation in case.program for row in operation.rows} - {SKIP_ROW}
    if max(slots, default=0) > len(slots):
        yield lambda: edits.renumber_slots(case, 1)
    for index, operation in enumerate(case.program):
        if any(row.slot == SKIP_ROW for row in operation.rows):
            rows = tuple(row for row in operation.rows if row.slot != SKIP_ROW)
            yield lambda i=index, o=operation, r=rows: edits.with_operation(case, i, replace(o, rows=r))  # type: ignore[misc]
        if isinstance(operation, Postprocess | Precopy) and operation.runner == "V2":
            yield lambda i=index, o=operation: edits.with_operation(case, i, replace(o, runner="V1"))  # type: ignore[misc]


def simpler_operations(case: Case) -> Iterator[Proposal[Case]]:
    """No requests outside the batch, a context in use, separate arrays for each operation, fewer table edits."""
    if case.linked:
        yield lambda: replace(case, linked=False)
    for index, operation in enumerate(case.program):
        for simpler in kind_of(operation).simpler(operation):
            yield lambda i=index, o=simpler: edits.with_operation(case, i, o)  # type: ignore[misc]
