"""Reachability is whether a scheduler could have asked for an operation: the relations that every step obeys.

The simulator produces reachable cases by construction; this is the check of it, and what keeps shrinking inside the
domain. It states the relations of docs/domain.md, section 6: of the layout, then of one operation at a time. A layout
may be smaller than that of any model, but is one that a model could have: what only the total domain has
(`harness.regimes`) is never left by shrinking either.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from harness.case import (
    FRESH,
    SKIP_ROW,
    AdvanceRow,
    AlignedIndicesRow,
    Case,
    ConvState,
    EditTables,
    InvalidCase,
    Layout,
    Operation,
    PostprocessRow,
    PrecopyRow,
    PreprocessRow,
    Row,
    ScalarCopy,
    ScatterAcceptedRow,
    StageRow,
    State,
    landing,
    operation_name,
    rows_of,
)

NULL_BLOCK = 0
PAGE_ALIGNMENT = 8
"""Bytes that addresses, strides and sizes of real states are multiples of (in fact of more: pages are padded)."""
MODEL_ITEM_SIZES = (2, 4)
"""Bytes of an element: models keep states as float32, float16 or bfloat16."""
LEAST_BLOCK_SIZE = 2
"""Tokens: Mamba blocks are as long as those of attention, whose kernels have none of one token."""


def require_reachable(case: Case) -> None:
    """Raise InvalidCase, saying which relation is broken, if no scheduler can have produced this case."""
    for text in _broken(case):
        raise InvalidCase(f"not reachable: {text}")


def _broken(case: Case) -> Iterator[str]:
    yield from _broken_layout(case.layout)
    for operation in case.program:
        if isinstance(operation, EditTables):
            case = _edited(case, operation)
            continue
        for i, row in enumerate(rows_of(operation)):
            if row.slot == SKIP_ROW:
                continue
            text = _broken_row(case, row)
            if text is None and isinstance(operation, ScalarCopy) and isinstance(row, PrecopyRow) and row.bias:
                text = "production goes this way without a bias"
            if text:
                yield f"{operation_name(operation)} row {i}: {text}"
        yield from _shared_running_blocks(case, operation)


def _broken_layout(layout: Layout) -> Iterator[str]:
    if layout.block_size < max(1 + layout.num_spec, LEAST_BLOCK_SIZE):
        yield f"block size {layout.block_size} is below {LEAST_BLOCK_SIZE}, or 1 + num_spec"
    for (number, place, _), state in layout.states():
        address = layout.buffers[state.buffer].misalignment + state.offset
        text = _broken_state(layout, state)
        if address % PAGE_ALIGNMENT or state.block_stride % PAGE_ALIGNMENT:
            text = f"is not aligned to {PAGE_ALIGNMENT} bytes"
        if text:
            yield f"a state of group {number}, layer {place} {text}"
    for g, group in enumerate(layout.groups):
        for i, layer in enumerate(group.layers):
            if len({state.buffer for state in layer.states}) > 1:
                yield f"the states of group {g}, layer {i} are not in one page"
            if sum(isinstance(state, ConvState) for state in layer.states) > 1:
                yield f"group {g}, layer {i} has two windows"


def _broken_state(layout: Layout, state: State) -> str | None:
    """What no model has about a state's size. A window has a row for each draft beside those of the convolution."""
    if state.item_size not in MODEL_ITEM_SIZES:
        return f"has elements of {state.item_size} bytes"
    if not isinstance(state, ConvState):
        return f"has {state.natural_bytes} bytes" if state.natural_bytes % PAGE_ALIGNMENT else None
    if state.dim * state.item_size % PAGE_ALIGNMENT:
        return f"has {state.dim * state.item_size} bytes for a token"
    if state.window <= layout.num_spec:
        return f"has a window of {state.window} where the model makes {layout.num_spec} drafts"
    if state.row_stride not in (None, state.window * state.item_size):
        return "has gaps between its rows"
    return None


def _edited(case: Case, edit: EditTables) -> Case:
    """The case with other tables. A block given to a column then belongs to the group of the table."""
    tables = [[list(cells) for cells in table] for table in case.contents.tables]
    owners = list(case.contents.owners)
    for cell in edit.cells:
        if cell.group >= len(tables) or cell.block >= len(owners):
            raise InvalidCase("an edit of a table or a block that does not exist")
        table = tables[cell.group]
        table.extend([] for _ in range(cell.slot + 1 - len(table)))
        row = table[cell.slot]
        row.extend([NULL_BLOCK] * (cell.column + 1 - len(row)))
        row[cell.column] = cell.block
        if cell.block:
            owners[cell.block] = cell.group
    contents = msgspec.structs.replace(
        case.contents,
        tables=tuple(tuple(tuple(cells) for cells in table) for table in tables),
        owners=tuple(owners),
    )
    return msgspec.structs.replace(case, contents=contents, program=case.program[:1])


def _broken_row(case: Case, row: Row) -> str | None:
    spec = case.layout.num_spec
    if isinstance(row, PostprocessRow):
        return _broken_postprocess(case, row)
    if isinstance(row, PrecopyRow):
        return _broken_precopy(case, row)
    if isinstance(row, AdvanceRow | PreprocessRow):
        if not 1 <= row.accepted <= spec + 1:
            return f"accepted {row.accepted} where the model makes {spec} drafts"
        if isinstance(row, AdvanceRow) and row.state_column == FRESH and row.accepted > 1:
            return "tokens were accepted before there was a state"
        if isinstance(row, AdvanceRow) and row.query_length < 1:
            return "nothing is scheduled"
    if isinstance(row, PreprocessRow | StageRow) and row.scheduled < 1:
        return "nothing is scheduled"
    if isinstance(row, StageRow) and row.state_column is None:
        return "preprocess gives every request a column"
    if isinstance(row, ScatterAcceptedRow) and row.sampled > spec + 1:
        return f"{row.sampled} sampled tokens where the model makes {spec} drafts"
    if isinstance(row, AlignedIndicesRow) and row.length < 1:
        return "a request without tokens"
    return None


def _broken_postprocess(case: Case, row: PostprocessRow) -> str | None:
    """Drafts with nothing computed are reachable: since 0.33 a prompt of one token is padded with drafts."""
    layout = case.layout
    size = layout.block_size
    if row.draft > layout.num_spec:
        return f"{row.draft} drafts where the model makes {layout.num_spec}"
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
    return _missing_blocks(case, row.slot, used)


def _broken_precopy(case: Case, row: PrecopyRow) -> str | None:
    if row.source_column in (FRESH, row.destination_column):
        return None
    if row.bias > case.layout.num_spec:
        return f"bias {row.bias} where the model makes {case.layout.num_spec} drafts"
    step = row.destination_column - row.source_column
    if step < -1 or (step == -1 and not case.layout.num_spec):
        return f"the running column moves back by {-step}"
    if row.bias and abs(step) != 1:
        return "tokens were accepted past the first, so this is decode: the running column moves by one at most"
    return _missing_blocks(case, row.slot, [row.source_column, row.source_column + row.bias, row.destination_column])


def _missing_blocks(case: Case, slot: int, columns: list[int]) -> str | None:
    """Cells that a moving row uses are blocks of the row's own group, and distinct columns are distinct blocks."""
    for group, table in enumerate(case.contents.tables):
        cells = table[slot] if slot < len(table) else ()
        blocks = []
        for column in dict.fromkeys(columns):
            if column >= len(cells):
                return f"column {column} of group {group} was never allocated"
            blocks.append(cells[column])
            if cells[column] == NULL_BLOCK or case.contents.owners[cells[column]] != group:
                return f"column {column} of group {group} holds no block of that group"
        if len(set(blocks)) != len(blocks):
            return f"two of the columns {columns} of group {group} hold one block"
    return None


def _shared_running_blocks(case: Case, operation: Operation) -> Iterator[str]:
    """A block that is written belongs to one request: no two rows of a batch run in the same one."""
    for group, table in enumerate(case.contents.tables):
        owner: dict[int, int] = {}
        for i, row in enumerate(rows_of(operation)):
            if row.slot == SKIP_ROW or row.slot >= len(table):
                continue
            if isinstance(row, PreprocessRow):
                column = row.destination_column(case.layout.block_size)
            elif isinstance(row, PrecopyRow):
                column = row.destination_column
            elif isinstance(row, PostprocessRow):
                column = row.state_column
            else:
                continue
            if column >= len(table[row.slot]):
                continue
            block = table[row.slot][column]
            if block != NULL_BLOCK and owner.setdefault(block, i) != i:
                yield f"rows {owner[block]} and {i} both run in block {block} of group {group}"
