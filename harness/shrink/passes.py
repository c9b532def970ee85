"""A pass proposes smaller versions of a case, boldest first; the shrinker keeps the first that still fails alike.

Structure before numbers, numbers before layout, contents last: a case with one request and one state makes every
later proposal cheaper. Proposals are pure functions of the case, so shrinking is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from harness.case import (
    FRESH,
    SKIP_ROW,
    Advance,
    AllMode,
    Case,
    ConvState,
    EditTables,
    Execution,
    Forward,
    InvalidCase,
    Postprocess,
    PostprocessEntry,
    PostprocessRow,
    Precopy,
    PrecopyRow,
    Preprocess,
    Row,
    Stage,
    State,
    TemporalState,
    rows_of,
    state_extent,
)
from harness.shrink import edits
from harness.shrink.edits import Where, replace

FAR = 1 << 20
"""Bytes between two blocks that are there for the sake of large offsets."""

Proposal = Callable[[], Case]
"""Makes a candidate; raises InvalidCase if there is none after all."""
Pass = Callable[[Case], Iterator[Proposal]]


def fewer_operations(case: Case) -> Iterator[Proposal]:
    """A single operation, then all but one."""
    count = len(case.program)
    if count == 1:
        return
    for i in range(count):
        yield lambda i=i: replace(case, program=(case.program[i],))  # type: ignore[misc]
    for i in range(count if count > 2 else 0):
        yield lambda i=i: replace(case, program=case.program[:i] + case.program[i + 1 :])  # type: ignore[misc]


def fewer_requests(case: Case) -> Iterator[Proposal]:
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


def fewer_groups(case: Case) -> Iterator[Proposal]:
    """All but one group, from the last to the first."""
    if len(case.layout.groups) > 1:
        for group in reversed(range(len(case.layout.groups))):
            yield lambda group=group: edits.remove_group(case, group)  # type: ignore[misc]


def fewer_states(case: Case) -> Iterator[Proposal]:
    """One state per group (every choice for one group at a time), then all but one."""
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


def simpler_runner(case: Case) -> Iterator[Proposal]:
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


def smaller_tables(case: Case) -> Iterator[Proposal]:
    """Only the cells that rows can reach, and null blocks in the rows in front of them; then a table as wide as its
    longest row."""
    used = edits.used_columns(case)
    blank = edits.blank_row(case)[: max(used.values(), default=0)]

    def needed(*others: int) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """Rows that nobody uses hold `others`: what is not given is stale, and no cell of it is like another."""
        return tuple(
            tuple(
                cells[: used[slot]] if slot in used else others
                for slot, cells in enumerate(table)
                if slot in used or slot < max(used, default=0)
            )
            for table in case.contents.tables
        )

    plain = needed(*blank)
    yield lambda: edits.with_contents(case, tables=plain)
    if case.contents.tables != plain:
        yield lambda: edits.with_contents(case, tables=needed())
    width = max([1, *used.values(), *(len(cells) for table in case.contents.tables for cells in table)])
    if width < case.layout.table_columns:
        yield lambda: edits.with_layout(case, table_columns=width)
    rows = max([1, *(slot + 1 for slot in used), *(len(operation.rows) for operation in case.program)])
    if rows < case.layout.table_rows:
        trimmed = tuple(table[:rows] for table in case.contents.tables)
        yield lambda: edits.with_contents(edits.with_layout(case, table_rows=rows), tables=trimmed)
    # As far as cells are given: numbers of rows that do not move can name columns far outside of any table.
    given = max((len(cells) for table in case.contents.tables for cells in table), default=0)
    for size in _down_to_one(given):
        for first in range(0, given, size):
            yield lambda first=first, size=size: _blank_columns(case, first, size)  # type: ignore[misc]


def _blank_columns(case: Case, first: int, size: int) -> Case:
    """The null block in `size` columns of every row: for cells that only look used."""
    blank = range(first, first + size)
    tables = tuple(
        tuple(tuple(0 if c in blank else cell for c, cell in enumerate(cells)) for cells in table)
        for table in case.contents.tables
    )
    return edits.with_contents(case, tables=tables)


def fewer_blocks(case: Case) -> Iterator[Proposal]:
    """Number the blocks in use from 1; where blocks lie far apart, widen the strides so that they still do."""
    yield lambda: edits.renumber_blocks(case)
    if any(edits.natural_gap(where, state) > FAR for where, state in case.layout.states()):
        # Where an offset wraps onto another block, and where it wraps beside one.
        for base, beside in ((1 << 31, 0), (1 << 31, 1), (1 << 32, 0), (1 << 32, 1)):
            yield lambda base=base, beside=beside: edits.repack(  # type: ignore[misc]
                edits.renumber_blocks(case),
                lambda w, s: (
                    base + (2 * beside - 1) * state_extent(s)
                    if edits.natural_gap(w, s) > FAR
                    else edits.natural_gap(w, s)
                ),
            )


def lower_columns(case: Case) -> Iterator[Proposal]:
    """Move requests to the first columns of their table rows."""
    for index, operation in enumerate(case.program):
        for at, row in enumerate(rows_of(operation)):
            if row.slot == SKIP_ROW:
                continue
            if isinstance(row, PostprocessRow):
                room = min(row.state_column, row.computed // case.layout.block_size)
            elif isinstance(row, PrecopyRow):
                room = min(row.source_column, row.destination_column) if row.source_column != FRESH else 0
            else:
                continue
            for columns in _down_to_one(room):
                yield lambda i=index, at=at, c=columns: edits.shift_row(case, i, at, c)  # type: ignore[misc]


def fewer_columns(case: Case) -> Iterator[Proposal]:
    """Take out the columns that a precopy neither reads nor writes: all of a row at once, then one by one."""
    for index, operation in enumerate(case.program):
        for at, row in enumerate(rows_of(operation)):
            if not isinstance(row, PrecopyRow) or row.slot == SKIP_ROW or row.source_column == FRESH:
                continue
            first, second = sorted((row.source_column, row.destination_column))
            # Columns from the source to the one of the accepted token keep their distance.
            first = max(first, row.source_column + row.bias) if row.source_column < row.destination_column else first
            unused = [c for c in range(first + 1, second) if c != row.source_column + row.bias]
            for columns in [unused, *([c] for c in unused if len(unused) > 1)]:
                if columns:
                    yield lambda i=index, at=at, c=columns: edits.remove_columns(case, i, at, c)  # type: ignore[misc]


def smaller_block_size(case: Case) -> Iterator[Proposal]:
    """Fewer tokens per block, the same columns and biases."""
    for size in _toward(case.layout.block_size, 1):
        yield lambda size=size: _with_block_size(case, size)  # type: ignore[misc]


def _with_block_size(case: Case, size: int) -> Case:
    """Keep each postprocess row's destination column and bias under another block size."""
    old = case.layout.block_size
    program = []
    for operation in case.program:
        rows: list[Row] = []
        for row in rows_of(operation):
            if isinstance(row, PostprocessRow) and row.slot != SKIP_ROW:
                aligned = row.new_computed // old * old
                bias = aligned - row.running
                if bias >= 0:
                    running = aligned // old * size - bias
                    extra = min(row.accepted - 1 - bias, size - 1)  # tokens past the boundary stay within a block
                    row = replace(  # noqa: PLW2901
                        row, computed=running - row.scheduled + row.draft, accepted=bias + 1 + extra
                    )
                if row.computed < 0:
                    raise InvalidCase("the row does not fit a smaller block")
            rows.append(row)
        program.append(edits.with_rows(operation, tuple(rows)))
    return replace(case, program=tuple(program), layout=replace(case.layout, block_size=size))


def canonical_rows(case: Case) -> Iterator[Proposal]:
    """The plainest requests there are, one for each way to move a state, with fresh tables.

    Many small cases cannot be made smaller number by number, yet are the same fault: these make them the same case.
    """
    if len(case.program) != 1 or len(case.program[0].rows) != 1:
        return
    operation, layout = case.program[0], case.layout
    if not isinstance(operation, Postprocess):
        return
    slots = (0,) if operation.runner == "V1" or operation.rows[0].slot < 1 else (0, 1)
    for size, row, columns in _PLAIN_POSTPROCESS:
        if (size, _plainness(row)) >= (layout.block_size, _plainness(operation.rows[0])):
            return  # fresh tables and a larger pool are worth it for plainer numbers alone
        settings = replace(layout, block_size=size, num_spec=row.draft)
        for slot in slots:
            plain = replace(operation, rows=(replace(row, slot=slot),))
            yield lambda plain=plain, settings=settings, columns=columns, slot=slot: edits.fill_tables(  # type: ignore[misc]
                replace(case, program=(plain,), layout=settings), columns, slot
            )


def _plainness(row: PostprocessRow) -> tuple[int, ...]:
    return row.scheduled, row.computed, row.draft, row.accepted, row.state_column


# Plainest first. Block size, row, columns: a whole block without drafts; from one block to the one before; inside of
# a block, with an accepted draft; both at once.
_PLAIN_POSTPROCESS = (
    (1, PostprocessRow(slot=0, scheduled=1, computed=0, draft=0, accepted=1, state_column=0), 1),
    (2, PostprocessRow(slot=0, scheduled=2, computed=1, draft=1, accepted=1, state_column=1), 3),
    (3, PostprocessRow(slot=0, scheduled=2, computed=1, draft=1, accepted=2, state_column=0), 2),
    (3, PostprocessRow(slot=0, scheduled=3, computed=1, draft=2, accepted=2, state_column=1), 4),
)


def smaller_numbers(case: Case) -> Iterator[Proposal]:
    """Each number of each row toward its least, keeping what hangs together."""
    for index, operation in enumerate(case.program):
        for at, row in enumerate(rows_of(operation)):
            if row.slot == SKIP_ROW:
                continue
            candidates: Iterator[Row]
            if isinstance(row, PostprocessRow):
                candidates = _postprocess_rows(row)
            elif isinstance(row, PrecopyRow):
                candidates = _precopy_rows(row)
            else:
                candidates = _other_rows(row)
            for candidate in candidates:
                yield lambda i=index, at=at, c=candidate: edits.with_row(case, i, at, c)  # type: ignore[misc]


def _postprocess_rows(row: PostprocessRow) -> Iterator[PostprocessRow]:
    ahead = row.scheduled - row.draft - 1
    if ahead > 0:  # the same running state, reached by a decode step
        yield replace(row, scheduled=row.draft + 1, computed=row.computed + ahead)
    least = max(row.accepted - 1, 0)
    for draft in _toward(row.draft, least):  # the same running state with fewer drafts
        yield replace(row, draft=draft, scheduled=row.scheduled - (row.draft - draft))
    for accepted in _toward(row.accepted, 1):
        yield replace(row, accepted=accepted)
    for less in _down_to_one(row.accepted - 1):  # a smaller bias: the same new count, fewer drafts in front of it
        if row.draft >= less:
            yield replace(
                row,
                accepted=row.accepted - less,
                draft=row.draft - less,
                scheduled=row.scheduled - less,
                computed=row.computed + less,
            )
    for state_column in _toward(row.state_column, 0):
        yield replace(row, state_column=state_column)
    for computed in _toward(row.computed, 0):
        yield replace(row, computed=computed)
    for scheduled in _toward(row.scheduled, 1):
        yield replace(row, scheduled=scheduled)


def _other_rows(row: Row) -> Iterator[Row]:
    """Each number by itself, and what may be left out."""
    for name, value in msgspec.structs.asdict(row).items():
        if value is True:
            yield replace(row, **{name: False})
        elif isinstance(value, int) and name != "slot":
            for less in _toward(value, 0):
                yield replace(row, **{name: less})


def simpler_operations(case: Case) -> Iterator[Proposal]:
    """No requests beside the batch, a context in use, arrays of each operation's own, fewer table edits."""
    if case.linked:
        yield lambda: replace(case, linked=False)
    for index, operation in enumerate(case.program):
        changes: list[dict[str, object]] = []
        if isinstance(operation, Stage) and operation.waiting:
            changes = [{"waiting": 0}]
        elif isinstance(operation, PostprocessEntry) and operation.first_use:
            changes = [{"first_use": False}]
        elif isinstance(operation, Advance) and operation.query_start:
            changes = [{"query_start": 0}]
        elif isinstance(operation, Forward) and operation.payload_seed:
            changes = [{"payload_seed": 0}]
        elif isinstance(operation, Preprocess | AllMode) and operation.absent:
            changes = [{"absent": ()}, {"absent": operation.absent[1:]}, {"absent": operation.absent[:-1]}]
        elif isinstance(operation, EditTables) and len(operation.cells) > 1:
            half = len(operation.cells) // 2
            changes = [{"cells": operation.cells[:half]}, {"cells": operation.cells[half:]}]
        for change in changes:
            yield lambda i=index, o=operation, c=change: edits.with_operation(case, i, replace(o, **c))  # type: ignore[misc]


def _precopy_rows(row: PrecopyRow) -> Iterator[PrecopyRow]:
    for bias in _toward(row.bias, 0):
        yield replace(row, bias=bias)
    for column in _toward(row.destination_column, 0):
        yield replace(row, destination_column=column)
    for column in _toward(row.source_column, 0):
        yield replace(row, source_column=column)
    if row.source_column > row.destination_column >= 0:
        yield replace(row, source_column=row.destination_column, destination_column=row.source_column)


def tight_layout(case: Case) -> Iterator[Proposal]:
    """Every state in a buffer of its own without gaps; then with its gap; then one state after the other."""
    yield lambda: edits.repack(_tight_rows(case), lambda where, state: 0)
    yield lambda: _tight_rows(case)
    yield lambda: edits.repack(case, edits.natural_gap)
    for where, state in case.layout.states():
        if edits.natural_gap(where, state):
            for gap in _gaps(state):
                yield lambda only=where, gap=gap: edits.repack(  # type: ignore[misc]
                    case, lambda w, s: gap if w == only else edits.natural_gap(w, s)
                )


def _gaps(state: State) -> Iterator[int]:
    """Gaps between two blocks, simplest first: none, one element, strides of a round number of gigabytes, half of
    what there is, and one element less."""
    yield from (0, state.item_size)
    extent = state_extent(state)
    for stride in (1 << 29, 1 << 30, 1 << 31, 1 << 32):
        if extent < stride < state.block_stride:
            yield stride - extent
    elements = (state.block_stride - extent) // state.item_size
    for fewer in (elements // 2, elements - 1):
        if fewer > 1:
            yield fewer * state.item_size


def _tight_rows(case: Case) -> Case:
    """DS rows without gaps between them."""

    def tight(_: Where, state: State) -> State:
        if isinstance(state, ConvState) and state.row_stride is not None:
            return replace(state, row_stride=state.window * state.item_size)
        return state

    return edits.map_states(case, tight)


def smaller_pages(case: Case) -> Iterator[Proposal]:
    """Shared buffers stay shared: all states of one byte, of one element, one number of one state, tight pages."""
    if len(case.layout.buffers) == len(list(case.layout.states())):
        return
    yield lambda: edits.pack_pages(case, _byte)
    # Not the smallest that may fail, but the same whatever states were there: two programs that shift one block.
    yield lambda: edits.pack_pages(case, lambda state: _shiftable(state, case.layout.conv_layout))
    yield lambda: edits.pack_pages(_tight_rows(case), _one_byte)
    yield lambda: edits.pack_pages(_tight_rows(case), lambda state: state)
    for _, state in case.layout.states():
        for small in _smaller_state(state):
            yield lambda old=state, small=small: edits.pack_pages(  # type: ignore[misc]
                _tight_rows(case), lambda s: small if s == old else s
            )


def _byte(state: State) -> State:
    """The plainest state there is, in the place of any."""
    return TemporalState(
        item_size=1, shape=(1,), buffer=state.buffer, offset=state.offset, block_stride=state.block_stride
    )


def _shiftable(state: State, conv_layout: str) -> State:
    """The plainest state of which a shift by one token reads and writes a byte."""
    return ConvState(
        item_size=1,
        window=3,
        dim=1,
        buffer=state.buffer,
        offset=state.offset,
        block_stride=state.block_stride,
        row_stride=None if conv_layout == "SD" else 3,
    )


def _one_byte(state: State) -> State:
    if isinstance(state, TemporalState):
        return replace(state, item_size=1, shape=(1,))
    return _conv(state, item_size=1, window=1, dim=1)


def smaller_states(case: Case) -> Iterator[Proposal]:
    """Few elements: the whole state at once, then one number at a time; blocks keep the gaps between them.

    A single byte in place of a conv state, where it does not matter what state it is.
    """
    for where, state in case.layout.states():
        if isinstance(state, ConvState):
            yield lambda only=where: edits.repack(  # type: ignore[misc]
                edits.map_states(case, lambda w, s: _byte(s) if w == only else s), edits.natural_gap
            )
    for where, state in case.layout.states():
        for small in _smaller_state(state):
            yield lambda only=where, small=small: edits.repack(  # type: ignore[misc]
                edits.map_states(case, lambda w, s: small if w == only else s),
                lambda w, s: edits.natural_gap(w, case.layout.groups[w[0]].layers[w[1]].states[w[2]]),
            )


def _smaller_state(state: State) -> Iterator[State]:
    sizes = [size for size in (1, 2, 4) if size < state.item_size]
    if isinstance(state, TemporalState):
        count = 1
        for length in state.shape:
            count *= length
        for fewer in _toward(count, 1):
            yield replace(state, shape=(fewer,))
        if len(state.shape) > 1:
            yield replace(state, shape=(count,))
        for size in sizes:
            yield replace(state, item_size=size)
        return
    for window in _toward(state.window, 1):
        yield _conv(state, window=window)
    for dim in _toward(state.dim, 1):
        yield _conv(state, dim=dim)
    for size in sizes:
        yield _conv(state, item_size=size)


def _conv(state: ConvState, **changes: int) -> ConvState:
    """A conv state with other numbers; the gap between DS rows stays."""
    smaller = replace(state, **changes)
    if state.row_stride is None:
        return smaller
    gap = state.row_stride - state.window * state.item_size
    item = smaller.item_size
    return replace(smaller, row_stride=smaller.window * item + -(-gap // item) * item)


def simpler_settings(case: Case) -> Iterator[Proposal]:
    """SD instead of DS, and no more speculative tokens than needed."""
    if case.layout.conv_layout == "DS":
        yield lambda: edits.change_conv_layout(case, "SD")
    for spec in _toward(case.layout.num_spec, 0):
        yield lambda spec=spec: edits.with_layout(case, num_spec=spec)  # type: ignore[misc]


def canonical_contents(case: Case) -> Iterator[Proposal]:
    """Payload seed 0, poison pattern A, programs in natural order; rows in the order of their slots."""
    if case.contents.payload_seed:
        yield lambda: edits.with_contents(case, payload_seed=0)
    if case.contents.poison != "A":
        yield lambda: edits.with_contents(case, poison="A")
    if case.execution != Execution():
        yield lambda: replace(case, execution=Execution())
    if case.execution.seed:
        yield lambda: replace(case, execution=replace(case.execution, seed=0))
    for index, operation in enumerate(case.program):
        ordered = tuple(sorted(operation.rows, key=lambda row: row.slot))
        if ordered != operation.rows:
            yield lambda i=index, o=operation, r=ordered: edits.with_operation(case, i, replace(o, rows=r))  # type: ignore[misc]


PASSES: tuple[Pass, ...] = (
    fewer_operations,
    simpler_operations,
    fewer_requests,
    fewer_groups,
    fewer_states,
    simpler_runner,
    smaller_tables,
    lower_columns,
    fewer_columns,
    canonical_rows,
    smaller_block_size,
    smaller_numbers,
    simpler_settings,
    tight_layout,
    smaller_pages,
    smaller_states,
    fewer_blocks,
    canonical_contents,
)


def _toward(value: int, least: int) -> Iterator[int]:
    """Numbers below `value`, boldest first: the least, its successor, then halfway steps, then one less."""
    seen = set()
    for number in (least, least + 1, (value + least) // 2, value - 1):
        if least <= number < value and number not in seen:
            seen.add(number)
            yield number


def _down_to_one(value: int) -> Iterator[int]:
    """Steps of at most `value`, boldest first."""
    while value >= 1:
        yield value
        value //= 2
