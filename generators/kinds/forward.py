"""How forward passes are drawn. By itself a pass tests nothing: reachable ones come in programs (programs.py)."""

from __future__ import annotations

from harness.case import Forward, ForwardRow, Operation
from harness.generators.kinds.kind import Kind, ReachableBatch, TotalBatch
from harness.generators.simulator import Scheduled


def forward_row(row: Scheduled) -> ForwardRow:
    """What a request's step writes."""
    return ForwardRow(slot=row.slot, column=row.column, draft=row.draft)


def _total(batch: TotalBatch) -> Operation:
    draw, last = batch.draw, batch.layout.table_columns - 1
    rows = []
    for slot in batch.used_slots:
        column = draw.boundary(0, last)
        rows.append(ForwardRow(slot=slot, column=column, draft=draw.integer(0, min(3, last - column))))
    return Forward(rows=tuple(rows), payload_seed=draw.integer(0, 2**32 - 1))


def _reachable(batch: ReachableBatch) -> Operation:
    return Forward(rows=tuple(forward_row(row) for row in batch.step), payload_seed=batch.draw.integer(0, 2**32 - 1))


FORWARD = Kind("forward", ("V2",), _total, _reachable)
