"""A program is several steps of one deployment: what the runner calls in each, with a forward pass in between.

All steps share one context and, for V2, one set of arrays. Between two steps the block manager edits the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.case import (
    Advance,
    EditTables,
    Forward,
    Layout,
    Operation,
    Postprocess,
    PostprocessEntry,
    Precopy,
    PrecopyRow,
    Preprocess,
    Runner,
    ScatterAccepted,
    ScatterAcceptedRow,
    TableCell,
)
from harness.generators.block_pool import Cell
from harness.generators.draw import Draw
from harness.generators.kinds.advance import advance_row
from harness.generators.kinds.forward import forward_row, total_forward
from harness.generators.kinds.kind import Deployment, ProgramKind
from harness.generators.kinds.migration import postprocess_row
from harness.generators.kinds.preprocess import preprocess_row, reachable_path
from harness.generators.parts import Parts, Tables
from harness.generators.simulator import Scheduled

MOST_SKIPPED = 6
"""Maximum number of steps before the first one that is kept."""


def draw_program(deployment: Deployment) -> Parts:
    """Simulate some steps and keep the last few of them."""
    draw, layout, runner = deployment.draw, deployment.layout, deployment.runner
    simulator, arrivals = deployment.simulator, deployment.arrivals
    groups = len(layout.groups)
    skipped = draw.integer(0, MOST_SKIPPED)
    kept = draw.weighted(((3, 3), (2, 3), (5, 2), (8, 1)))
    program: list[Operation] = []
    tables: Tables | None = None
    owners = tuple(simulator.pool.owners)
    owned = list(owners)
    known: dict[int, list[Cell]] = {}
    for number in range(skipped + kept):
        while arrivals and arrivals[0][0] <= number:
            simulator.waiting.append(arrivals.pop(0)[1])
        if simulator.running and draw.boolean(0.05):
            simulator.preempt(simulator.running[-1])
        step = simulator.step()
        if not step:
            if not arrivals and not simulator.waiting and not simulator.running:
                break
            continue
        if number < skipped:
            continue
        if tables is None:
            tables = tables_of(simulator.rows, groups)
            owners = tuple(simulator.pool.owners)  # edits record later owners of a block
            owned = list(owners)
        else:
            edits = _edits(known, simulator.rows, owned, simulator.pool.owners)
            if edits:
                program.append(EditTables(cells=edits))
        known = {slot: list(cells) for slot, cells in simulator.rows.items()}
        program.extend(_step(draw, layout, runner, step))
    if tables is None:
        tables = tables_of(simulator.rows, groups)
        program.append(Forward(rows=(), payload_seed=0))
    return Parts(tables, owners, tuple(program), linked=True)


def _step(draw: Draw, layout: Layout, runner: Runner, step: Sequence[Scheduled]) -> list[Operation]:
    forward = Forward(rows=tuple(forward_row(row) for row in step), payload_seed=draw.integer(0, 2**32 - 1))
    if runner == "V1":
        rows = tuple([preprocess_row(draw, row, layout.table_columns) for row in step])
        preprocess = Preprocess(path=reachable_path(layout.num_spec), rows=rows)
        if layout.num_spec == 0:  # then production has no postprocess
            return [preprocess, forward]
        return [preprocess, forward, PostprocessEntry(rows=tuple(postprocess_row(row, row.slot) for row in step))]
    moves = [
        PrecopyRow(slot=row.slot, source_column=row.previous_column, destination_column=row.column, bias=row.bias)
        for row in step
    ]
    sampled = [ScatterAcceptedRow(slot=row.slot, sampled=row.accepted if row.samples else 0) for row in step]
    return [
        Advance(rows=tuple(advance_row(row) for row in step)),
        Precopy(runner="V2", rows=tuple(moves)),
        forward,
        ScatterAccepted(rows=tuple(sampled)),
        Postprocess(runner="V2", rows=tuple(postprocess_row(row, row.slot) for row in step)),
    ]


def _edits(
    before: Mapping[int, Sequence[Cell]], after: Mapping[int, Sequence[Cell]], owned: list[int], owners: Sequence[int]
) -> tuple[TableCell, ...]:
    """Cells that differ or are new, and those whose block has returned to their group; `owned` is updated with them.

    First those whose block another group has taken meanwhile, in the row of a request that is gone: an edit makes its
    group the owner, and the last one counts.
    """
    edits = []
    for of_others in (True, False):
        for slot, column, group, block in _cells(after):
            if (block != 0 and owners[block] != group) != of_others:
                continue
            known = before.get(slot, ())
            is_back = block != 0 and owned[block] != group == owners[block]
            if is_back or column >= len(known) or known[column][group] != block:
                edits.append(TableCell(group=group, slot=slot, column=column, block=block))
                if block:
                    owned[block] = group
    return tuple(edits)


def _cells(rows: Mapping[int, Sequence[Cell]]) -> Iterator[tuple[int, int, int, int]]:
    """Slot, column, group and block of each cell."""
    for slot, cells in rows.items():
        for column, cell in enumerate(cells):
            for group, block in enumerate(cell):
                yield slot, column, group, block


def tables_of(rows: Mapping[int, Sequence[Cell]], groups: int) -> Tables:
    """The tables of a case from the rows of a simulator."""
    height = max(rows, default=-1) + 1
    return tuple(
        tuple(tuple(cell[group] for cell in rows.get(slot, ())) for slot in range(height)) for group in range(groups)
    )


PROGRAMS = ProgramKind(
    name="forward",
    summary="programs of several steps, with new states in between",
    runners=("V1", "V2"),
    reachable=draw_program,
    total_runners=("V2",),
    total=total_forward,
)
