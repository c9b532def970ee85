"""Kernel cases of a sequence: the stream of kernel arguments that it produces, cut into programs of a few steps.

Each is an ordinary case: the runner's calls on its tables, with a forward pass between the calls and table edits
between the steps. So a sequence is a source of cases that are reachable because a scheduler reached them, and that any
target and executor can run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness.case import (
    FRESH,
    Advance,
    AdvanceRow,
    Case,
    Contents,
    EditTables,
    Forward,
    ForwardRow,
    Operation,
    Postprocess,
    PostprocessRow,
    Precopy,
    PrecopyRow,
    ScalarCopy,
    ScatterAccepted,
    ScatterAcceptedRow,
    TableCell,
)
from harness.case.case import FREE
from harness.case.sequence import SequenceConfig
from harness.case.step_plan import PostprocessInput, StepPlan
from harness.sequences.byte_layout import byte_layout

MOST_OPERATIONS = 64 - 7
"""Maximum number of operations of a case, minus those of one step."""


class KernelCaseWriter:
    """Collects the steps of one sequence; `keep` gets each case as soon as it is complete, and `finish` the last one.

    `dim_first` is as in `byte_layout`, `steps` is the maximum number of steps of a case.
    """

    def __init__(
        self, config: SequenceConfig, keep: Callable[[Case], None], *, dim_first: bool, steps: int = 8
    ) -> None:
        self._config, self._keep, self._steps = config, keep, steps
        self._layout = byte_layout(config, dim_first=dim_first)
        self._rows: list[dict[int, list[int]]] = [{} for _ in self._layout.groups]
        self._owners = [FREE] * config.num_blocks
        self._contents: Contents | None = None
        self._program: list[Operation] = []
        self._taken = 0
        self._seed = 0

    def add(self, plan: StepPlan, inputs: Sequence[PostprocessInput], sampled: Mapping[str, int]) -> None:
        """Add one step; `inputs` are those of its postprocess, `sampled` the tokens that its rows sampled, by
        request."""
        if not plan.rows:
            return
        edits = self._edit(plan, inputs)
        if self._contents is None:
            self._contents = self._now()
        elif edits:
            self._program.append(EditTables(cells=edits))
        self._program += self._before_forward(plan)
        self._seed += 1
        self._program += self._forward(plan)
        self._program += self._after_forward(inputs, sampled)
        self._taken += 1
        if self._taken >= self._steps or len(self._program) > MOST_OPERATIONS:
            self.finish()

    def finish(self) -> None:
        """Pass on the last, unfinished case."""
        if self._contents is not None:
            self._keep(
                Case(
                    domain="reachable",
                    layout=self._layout,
                    contents=self._contents,
                    program=tuple(self._program),
                    linked=self._config.runner == "V2",
                )
            )
        self._contents, self._program, self._taken = None, [], 0

    # Tables.

    def _now(self) -> Contents:
        height = max((max(rows, default=-1) for rows in self._rows), default=-1) + 1
        tables = tuple(tuple(tuple(rows.get(slot, ())) for slot in range(height)) for rows in self._rows)
        return Contents(payload_seed=self._seed, tables=tables, owners=tuple(self._owners))

    def _edit(self, plan: StepPlan, inputs: Sequence[PostprocessInput]) -> tuple[TableCell, ...]:
        """Update tables and owners to a step: the cells that differ, then those that the step uses and whose block
        belongs to another group so far. (An edit sets the owner of a block, and a new row has stale cells.)"""
        edits: dict[tuple[int, int, int], int] = {}
        for row in plan.rows:
            for group, cells in enumerate(row.mamba):
                known = self._rows[group].setdefault(row.slot, [])
                for column, block in enumerate(cells):
                    if column >= len(known) or known[column] != block:
                        edits[group, row.slot, column] = block
                        self._owners[block] = group if block else FREE
                known[: len(cells)] = cells
        for slot, column, table in _used(plan, inputs):
            for group, cells in enumerate(table):
                block = cells[column]
                if block and self._owners[block] != group:
                    edits.pop((group, slot, column), None)
                    edits[group, slot, column] = block
                    self._owners[block] = group
        return tuple(
            TableCell(group=group, slot=slot, column=column, block=block)
            for (group, slot, column), block in edits.items()
        )

    # Operations.

    def _before_forward(self, plan: StepPlan) -> list[Operation]:
        rows = tuple(
            PrecopyRow(
                slot=row.slot,
                source_column=max(row.source, FRESH),
                destination_column=row.destination,
                bias=row.bias,
            )
            for row in plan.starts
        )
        if self._config.runner == "V1":
            return [Precopy(runner="V1", rows=rows) if plan.fused else ScalarCopy(rows=rows)]
        advance = Advance(
            rows=tuple(
                AdvanceRow(
                    slot=row.slot,
                    state_column=max(row.source, FRESH),
                    accepted=row.accepted,
                    computed=row.computed,
                    query_length=row.scheduled,
                )
                for row in plan.starts
            )
        )
        return [advance, Precopy(runner="V2", rows=rows)]

    def _forward(self, plan: StepPlan) -> list[Operation]:
        rows = tuple(
            ForwardRow(slot=row.slot, column=row.state_column, draft=row.scheduled - 1 if row.speculative else 0)
            for row in plan.rows
        )
        forwards: list[Operation] = [Forward(rows=rows, payload_seed=self._seed)]
        exports = tuple(
            ForwardRow(slot=row.slot, column=row.checkpoint_column, draft=0)
            for row in plan.rows
            if row.checkpoint_offset and row.mamba[0][row.checkpoint_column]
        )
        if exports:
            forwards.append(Forward(rows=exports, payload_seed=self._seed + 2**20))
        return forwards

    def _after_forward(self, inputs: Sequence[PostprocessInput], sampled: Mapping[str, int]) -> list[Operation]:
        if not inputs:
            return []
        rows = tuple(
            PostprocessRow(
                slot=row.slot,
                scheduled=row.scheduled,
                computed=row.computed,
                draft=row.drafts,
                accepted=row.accepted,
                state_column=row.state_column,
            )
            for row in inputs
        )
        if self._config.runner == "V1":
            return [Postprocess(runner="V1", rows=rows)]
        scatter = tuple(ScatterAcceptedRow(slot=row.slot, sampled=sampled[row.request]) for row in inputs)
        return [ScatterAccepted(rows=scatter), Postprocess(runner="V2", rows=rows)]


def _used(plan: StepPlan, inputs: Sequence[PostprocessInput]) -> list[tuple[int, int, tuple[list[int], ...]]]:
    """(slot, column, table rows) of everything that a step reads or writes: blocks of the group whose table it is."""
    used = [
        (move.slot, column, move.mamba)
        for move in plan.precopy
        for column in (move.source, move.source + move.bias, move.destination)
    ]
    for row in plan.rows:
        last = row.state_column + (row.scheduled - 1 if row.speculative else 0)
        used += [(row.slot, column, row.mamba) for column in range(row.state_column, last + 1)]
    for after in inputs:
        used += [
            (after.slot, column, after.mamba)
            for column in range(after.state_column, after.state_column + after.drafts + 1)
        ]
    return used
