"""How postprocess and precopy are drawn."""

from __future__ import annotations

from harness.case import FRESH, SKIP_ROW, Case, Postprocess, PostprocessRow, Precopy, PrecopyRow, landing
from harness.generators.kinds.kind import COPIES_SHARE, DrawnKind, PlainRequest, ReachableBatch, TotalBatch
from harness.generators.kinds.rules import each_running_row, missing_blocks
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
    """Whether the step reached a block boundary and left its state elsewhere."""
    if row.draft == 0:
        return False
    landed = landing(row.running, row.accepted, block_size)
    return landed is not None and (landed.bias > 0 or (not decoding and landed.column != row.column))


def precopy_moves(row: Scheduled, block_size: int, decoding: bool) -> bool:
    """Whether the running column changes."""
    return row.precopies and (not decoding or row.bias > 0 or row.column < row.previous_column)


def _total_postprocess(batch: TotalBatch) -> Postprocess:
    return Postprocess(runner=batch.runner, rows=tuple([batch.rows.postprocess(slot) for slot in batch.slots]))


def _total_precopy(batch: TotalBatch) -> Precopy:
    return Precopy(runner=batch.runner, rows=tuple([batch.rows.precopy(slot) for slot in batch.slots]))


def _reachable_postprocess(batch: ReachableBatch) -> Postprocess:
    """V2 may filter rows out of its mapping (pipeline stages do)."""
    draw = batch.draw
    filtering = batch.runner == "V2" and draw.boolean(0.15)
    return Postprocess(
        runner=batch.runner,
        rows=tuple(
            postprocess_row(row, SKIP_ROW if filtering and draw.boolean(0.3) else row.slot) for row in batch.step
        ),
    )


def _reachable_precopy(batch: ReachableBatch) -> Precopy:
    """V1 stages source and bias only for rows that move; V2 passes those of every row."""
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


def _broken_postprocess(case: Case, row: PostprocessRow) -> str | None:
    """Drafts with nothing computed are reachable: since 0.33 a prompt of one token is padded with drafts."""
    layout = case.layout
    size = layout.block_size
    if row.draft > layout.num_spec:
        return f"{row.draft} drafts but the model makes {layout.num_spec}"
    if row.draft and row.scheduled != row.draft + 1:
        return "a step with drafts schedules one token more than drafts"
    if row.scheduled < 1:
        return "nothing is scheduled"
    if not 1 <= row.accepted <= row.draft + 1:
        return f"accepted {row.accepted} of {row.draft} drafts and the sampled token"
    if row.state_column != -(-(row.computed + row.scheduled) // size) - 1:
        return "the running state is not in the column of the last scheduled token"
    landed = landing(row.running, row.accepted, size)
    if landed is None:
        return None
    used = [landed.column, *range(row.state_column, row.state_column + row.draft + 1)]
    return missing_blocks(case, row.slot, used)


def broken_precopy(case: Case, row: PrecopyRow) -> str | None:
    """The rule that a move before a step breaks."""
    if row.source_column in (FRESH, row.destination_column):
        return None
    if row.bias > case.layout.num_spec:
        return f"bias {row.bias} but the model makes {case.layout.num_spec} drafts"
    step = row.destination_column - row.source_column
    if step < -1 or (step == -1 and not case.layout.num_spec):
        return f"the running column moves back by {-step}"
    if row.bias and abs(step) != 1:
        return "tokens were accepted past the first, so this is decode: the running column moves by one at most"
    return missing_blocks(case, row.slot, [row.source_column, row.source_column + row.bias, row.destination_column])


def _running_column(row: PostprocessRow, block_size: int) -> int:
    return row.state_column


def precopied_column(row: PrecopyRow, block_size: int) -> int:
    """The column that a request runs in after the move."""
    return row.destination_column


broken_postprocesses = each_running_row(_broken_postprocess, _running_column)


def _plain_postprocess(
    block_size: int, num_spec: int, columns: int, *, computed: int, draft: int, accepted: int, state_column: int
) -> PlainRequest:
    """A decode of one token and its drafts."""
    row = PostprocessRow(
        slot=0, scheduled=1 + draft, computed=computed, draft=draft, accepted=accepted, state_column=state_column
    )
    return PlainRequest(block_size, num_spec, row, columns)


def _plain_precopy(block_size: int, num_spec: int, bias: int) -> PlainRequest:
    """From the first column to the second."""
    return PlainRequest(block_size, num_spec, PrecopyRow(slot=0, source_column=0, destination_column=1, bias=bias), 2)


# Blocks of one token are for the total domain; the reachable one uses two tokens for the same purpose.
POSTPROCESS = DrawnKind(
    operation=Postprocess,
    runners=("V1", "V2"),
    total=_total_postprocess,
    reachable=_reachable_postprocess,
    moves=postprocess_moves,
    weight=COPIES_SHARE,
    broken=broken_postprocesses,
    plain=(
        # A whole block without drafts.
        _plain_postprocess(1, 0, 1, computed=0, draft=0, accepted=1, state_column=0),
        _plain_postprocess(2, 0, 1, computed=1, draft=0, accepted=1, state_column=0),
        # From one block to the previous one.
        _plain_postprocess(2, 1, 3, computed=1, draft=1, accepted=1, state_column=1),
        # Inside a block, with an accepted draft.
        _plain_postprocess(3, 1, 2, computed=1, draft=1, accepted=2, state_column=0),
        # Both together.
        _plain_postprocess(3, 2, 4, computed=1, draft=2, accepted=2, state_column=1),
    ),
)
PRECOPY = DrawnKind(
    operation=Precopy,
    runners=("V1", "V2"),
    total=_total_precopy,
    reachable=_reachable_precopy,
    moves=precopy_moves,
    weight=COPIES_SHARE,
    broken=each_running_row(broken_precopy, precopied_column),
    plain=(_plain_precopy(1, 0, 0), _plain_precopy(2, 0, 0), _plain_precopy(2, 1, 1)),
)
