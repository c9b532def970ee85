"""How the bookkeeping of `all` mode is drawn: whole decodes, other steps, and requests that come and go."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from harness.case import AllMode, AllModeRow
from harness.generators.draw import Draw
from harness.generators.kinds.kind import DrawnKind, ReachableBatch, TotalBatch
from harness.generators.kinds.preprocess import draw_absent, fewer_absent, preprocess_row
from harness.generators.kinds.rules import no_rule

LARGEST = 2**29


def _total(batch: TotalBatch) -> AllMode:
    draw, layout = batch.draw, batch.layout
    decode = 1 + layout.num_spec
    rows = [
        AllModeRow(
            slot=slot,
            state_column=None if draw.boolean(0.3) else draw.boundary(0, 2**20),
            resumed=draw.boolean(0.2),
            computed=draw.boundary(0, LARGEST, (layout.block_size - 1, layout.block_size)),
            scheduled=decode if draw.boolean(0.6) else draw.boundary(0, LARGEST, (decode - 1, decode + 1)),
        )
        for slot in batch.slots
    ]
    return AllMode(rows=tuple(rows), absent=draw_absent(draw, layout.table_columns))


def _reachable(batch: ReachableBatch) -> AllMode:
    """A step as the simulator has it: the remembered values may be those of an earlier decode."""
    draw: Draw = batch.draw
    columns = batch.layout.table_columns
    rows = []
    for scheduled in batch.step:
        row = preprocess_row(draw, scheduled, columns)
        forgotten = draw.boolean(0.3)  # the previous step was not a whole decode
        rows.append(
            AllModeRow(
                slot=row.slot,
                state_column=None if forgotten else row.state_column,
                resumed=row.resumed,
                computed=row.computed,
                scheduled=row.scheduled,
            )
        )
    return AllMode(rows=tuple(rows), absent=draw_absent(draw, columns))


def _simpler(operation: AllMode) -> Iterator[AllMode]:
    for absent in fewer_absent(operation.absent):
        yield msgspec.structs.replace(operation, absent=absent)


ALL_MODE = DrawnKind(
    operation=AllMode, runners=("V1",), total=_total, reachable=_reachable, broken=no_rule, simpler=_simpler
)
