"""How forward passes are drawn, and which passes and table edits are simpler. Both occur in programs (programs.py)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from harness.case import EditTables, Forward, ForwardRow
from harness.generators.kinds.kind import Kind, TotalBatch
from harness.generators.kinds.rules import no_rule
from harness.generators.simulator import Scheduled


def forward_row(row: Scheduled) -> ForwardRow:
    """What a request's step writes."""
    return ForwardRow(slot=row.slot, column=row.column, draft=row.draft)


def total_forward(batch: TotalBatch) -> Forward:
    """A forward pass alone."""
    draw, last = batch.draw, batch.layout.table_columns - 1
    rows = []
    for slot in batch.used_slots:
        column = draw.boundary(0, last)
        rows.append(ForwardRow(slot=slot, column=column, draft=draw.integer(0, min(3, last - column))))
    return Forward(rows=tuple(rows), payload_seed=draw.integer(0, 2**32 - 1))


def _simpler_forward(operation: Forward) -> Iterator[Forward]:
    if operation.payload_seed:
        yield msgspec.structs.replace(operation, payload_seed=0)


def _simpler_edits(operation: EditTables) -> Iterator[EditTables]:
    """Either half of the cells."""
    if len(operation.cells) > 1:
        half = len(operation.cells) // 2
        yield msgspec.structs.replace(operation, cells=operation.cells[:half])
        yield msgspec.structs.replace(operation, cells=operation.cells[half:])


FORWARD = Kind(operation=Forward, broken=no_rule, simpler=_simpler_forward)
EDIT_TABLES = Kind(operation=EditTables, broken=no_rule, simpler=_simpler_edits)
