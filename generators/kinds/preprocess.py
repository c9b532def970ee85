"""How the V1 runner's preprocess is drawn: moves as for precopy, given in tokens, and requests that come and go."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from harness.case import FRESH, AbsentRequest, Case, MovePath, PrecopyRow, Preprocess, PreprocessRow
from harness.generators.draw import Draw
from harness.generators.kinds.kind import DrawnKind, PlainRequest, ReachableBatch, TotalBatch
from harness.generators.kinds.migration import broken_precopy, precopy_moves
from harness.generators.kinds.rules import each_running_row, impossible_accepted
from harness.generators.kinds.scalar_copy import can_shift, is_contiguous
from harness.generators.simulator import Scheduled


def draw_absent(draw: Draw, columns: int) -> tuple[AbsentRequest, ...]:
    """Up to three requests that are not in the batch."""
    count = draw.weighted(((0, 3), (1, 3), (2, 1), (3, 1)))
    return tuple(
        [
            AbsentRequest(
                state_column=None if draw.boolean(0.2) else draw.integer(0, columns - 1),
                absence=draw.choice(("finished", "preempted", "idle")),
            )
            for _ in range(count)
        ]
    )


def _total(batch: TotalBatch) -> Preprocess:
    draw, layout = batch.draw, batch.layout
    path: MovePath = draw.choice(("fused", "scalar")) if is_contiguous(layout) else "fused"
    biased = path == "fused" or can_shift(layout)
    rows = [_total_row(batch, slot, biased) for slot in batch.slots]
    return Preprocess(path=path, rows=tuple(rows), absent=draw_absent(draw, layout.table_columns))


def _total_row(batch: TotalBatch, slot: int, biased: bool) -> PreprocessRow:
    """A precopy row in tokens. Columns past the table row are those of requests that do not move."""
    draw, size = batch.draw, batch.layout.block_size
    wanted = batch.rows.precopy(slot, biased=biased)
    source, destination = wanted.source_column, wanted.destination_column
    total = destination * size + draw.boundary(1, size)
    accepted = wanted.bias + 1
    if source == FRESH:
        if draw.boolean():  # stays in its column
            computed = draw.boundary(0, total)
            return PreprocessRow(
                slot=slot, state_column=destination, computed=computed, scheduled=total - computed, accepted=accepted
            )
        resumed = draw.boolean(0.3)
        column = draw.boundary(0, 2**20) if resumed and draw.boolean(0.7) else None
        return PreprocessRow(
            slot=slot, state_column=column, resumed=resumed, computed=0, scheduled=total, accepted=accepted
        )
    least, most = source * size + 1, (source + 1) * size
    if most <= total and draw.boolean(0.3):  # no column remembered: it follows from the computed tokens
        resumed = draw.boolean()
        column = draw.boundary(0, 2**20) if resumed and draw.boolean(0.7) else None
        computed = draw.boundary(least, most)
        return PreprocessRow(
            slot=slot,
            state_column=column,
            resumed=resumed,
            computed=computed,
            scheduled=total - computed,
            accepted=accepted,
        )
    computed = draw.boundary(0, total)
    return PreprocessRow(
        slot=slot, state_column=source, computed=computed, scheduled=total - computed, accepted=accepted
    )


def preprocess_row(draw: Draw, row: Scheduled, columns: int) -> PreprocessRow:
    """A request before its step. A request that was sent back to the queue may still have its old column."""
    stale = row.resumed and draw.boolean()
    column = draw.integer(0, columns - 1) if stale else row.previous_column if row.remembered else None
    return PreprocessRow(
        slot=row.slot,
        state_column=column,
        resumed=row.resumed,
        computed=row.computed,
        scheduled=row.scheduled,
        accepted=row.bias + 1,
    )


def reachable_path(num_spec: int) -> MovePath:
    """Production creates a context for the kernel only where there are drafts, and only if it has that kernel."""
    return "production" if num_spec else "scalar"


def _reachable(batch: ReachableBatch) -> Preprocess:
    layout = batch.layout
    rows = tuple([preprocess_row(batch.draw, row, layout.table_columns) for row in batch.step])
    absent = draw_absent(batch.draw, layout.table_columns)
    return Preprocess(path=reachable_path(layout.num_spec), rows=rows, absent=absent)


def _broken(case: Case, row: PreprocessRow) -> str | None:
    if row.scheduled < 1:
        return "nothing is scheduled"
    if row.accepted > 1 and row.computed < row.accepted:
        return f"{row.accepted} tokens were accepted and {row.computed} are computed"
    if row.accepted > 1 and not row.resumed and row.scheduled > case.layout.num_spec + 1:
        return f"tokens were accepted, so this is decode: {row.scheduled} tokens are scheduled"
    size = case.layout.block_size
    # The last step ended after the accepted tokens and the drafts that were not: with the last of those ran its state.
    ends = {
        (row.computed - row.accepted + drafts) // size for drafts in range(row.accepted - 1, case.layout.num_spec + 1)
    }
    if row.state_column is not None and not row.resumed and row.computed and row.state_column not in ends:
        return f"{row.computed} tokens are computed, and the last step ran in column {row.state_column}"
    move = PrecopyRow(
        slot=row.slot,
        source_column=max(row.source_column(size), FRESH),
        destination_column=row.destination_column(size),
        bias=max(row.accepted - 1, 0),
    )
    return impossible_accepted(case, row.accepted) or broken_precopy(case, move)


def fewer_absent(absent: tuple[AbsentRequest, ...]) -> Iterator[tuple[AbsentRequest, ...]]:
    """Fewer requests that are not in the batch: none, then all but the first, all but the last."""
    if absent:
        yield from ((), absent[1:], absent[:-1])


def _simpler(operation: Preprocess) -> Iterator[Preprocess]:
    for absent in fewer_absent(operation.absent):
        yield msgspec.structs.replace(operation, absent=absent)
    if not operation.absent and operation.path == "scalar":
        yield msgspec.structs.replace(operation, path="fused")


def _plain(block_size: int, state_column: int, computed: int, columns: int, *, resumed: bool = False) -> PlainRequest:
    """One token past whole blocks."""
    row = PreprocessRow(slot=0, state_column=state_column, resumed=resumed, computed=computed, scheduled=1, accepted=1)
    return PlainRequest(block_size, 0, row, columns)


PREPROCESS = DrawnKind(
    operation=Preprocess,
    runners=("V1",),
    total=_total,
    reachable=_reachable,
    moves=precopy_moves,
    broken=each_running_row(_broken, PreprocessRow.destination_column),
    simpler=_simpler,
    plain=(
        _plain(1, 0, 1, 2),
        _plain(2, 0, 2, 2),
        # Resumed, with another column remembered.
        _plain(1, 1, 1, 2, resumed=True),
        _plain(1, 0, 2, 3, resumed=True),
        _plain(2, 1, 2, 2, resumed=True),
        _plain(2, 0, 4, 3, resumed=True),
    ),
)
