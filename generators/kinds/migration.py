"""How postprocess and precopy are drawn."""

from __future__ import annotations

from harness.case import FRESH, SKIP_ROW, Operation, Postprocess, PostprocessRow, Precopy, PrecopyRow, landing
from harness.generators.kinds.kind import Kind, ReachableBatch, TotalBatch
from harness.generators.simulator import Scheduled


def postprocess_row(row: Scheduled, slot: int) -> PostprocessRow:
    """A request after its step."""
    return PostprocessRow(
        slot=slot,
        scheduled=row.scheduled,
        computed=row.computed,
        draft=row.draft,
        accepted=row.accepted,
        state_column=row.column,
    )


def postprocess_moves(row: Scheduled, block_size: int, decoding: bool) -> bool:
    """Whether the step reached a block boundary, and left its state somewhere else."""
    if row.draft == 0:
        return False
    landed = landing(row.running, row.accepted, block_size)
    return landed is not None and (landed.bias > 0 or (not decoding and landed.column != row.column))


def precopy_moves(row: Scheduled, block_size: int, decoding: bool) -> bool:
    """Whether the running column changes."""
    return row.precopies and (not decoding or row.bias > 0 or row.column < row.previous_column)


def _total_postprocess(batch: TotalBatch) -> Operation:
    return Postprocess(runner=batch.runner, rows=tuple([batch.rows.postprocess(slot) for slot in batch.slots]))


def _total_precopy(batch: TotalBatch) -> Operation:
    return Precopy(runner=batch.runner, rows=tuple([batch.rows.precopy(slot) for slot in batch.slots]))


def _reachable_postprocess(batch: ReachableBatch) -> Operation:
    """V2 may filter rows out of its mapping (pipeline stages do)."""
    draw = batch.draw
    filtering = batch.runner == "V2" and draw.boolean(0.15)
    return Postprocess(
        runner=batch.runner,
        rows=tuple(
            postprocess_row(row, SKIP_ROW if filtering and draw.boolean(0.3) else row.slot) for row in batch.step
        ),
    )


def _reachable_precopy(batch: ReachableBatch) -> Operation:
    """V1 stages source and bias for the rows that move alone; V2 hands over those of every row."""
    staged = batch.runner == "V1"
    return Precopy(
        runner=batch.runner,
        rows=tuple(
            PrecopyRow(
                slot=row.slot,
                source_column=FRESH if staged and not row.precopies else row.previous_column,
                destination_column=row.column,
                bias=0 if staged and not row.precopies else row.bias,
            )
            for row in batch.step
        ),
    )


POSTPROCESS = Kind("postprocess", ("V1", "V2"), _total_postprocess, _reachable_postprocess, postprocess_moves)
PRECOPY = Kind("precopy", ("V1", "V2"), _total_precopy, _reachable_precopy, precopy_moves)
