"""A kernel case in words: its layout, its block tables, what its operations are asked for, and how it is run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import msgspec

from harness.case import (
    FRESH,
    SKIP_ROW,
    Case,
    ConvState,
    Operation,
    Postprocess,
    Precopy,
    State,
    operation_name,
    rows_of,
    state_extent,
)
from harness.oracles.copies import StateCopy
from harness.oracles.decisions import decide
from harness.reports.pictures.copies_due import expected_copies, plan_of
from harness.reports.section import Section
from harness.text import counted

SHOWN_COPIES = 24
SHOWN_STATES = 64


def case_in_words(case: Case) -> list[Section]:
    """All of a case. Raises InvalidCase."""
    copies = expected_copies(case, plan_of(case))
    return [
        Section("Layout", list(_layout(case))),
        Section("Block tables (cells not shown are stale)", list(_tables(case))),
        *(
            Section(
                f"Operation {index}: {operation_name(operation)}, runner {operation.runner}",
                list(_operation(case, operation, copies[index])),
            )
            for index, operation in enumerate(case.program)
        ),
        Section("Execution", [_execution(case)]),
    ]


def _execution(case: Case) -> str:
    """How the case is run, where that matters to its finding."""
    run = case.execution
    parts = [f"programs in {run.program_order} order"]
    parts += [f"{run.interleave} programs at a time"] if run.interleave else []
    parts += ["warps independent"] if run.warps == "apart" else []
    parts += ["addresses of 2**63 and more"] if run.high_addresses else []
    parts += [f"checked: {', '.join(run.checks) or 'bytes alone'}"]
    return ", ".join(parts)


def _layout(case: Case) -> Iterator[str]:
    layout = case.layout
    yield (
        f"block size {counted(layout.block_size, 'token')}, {counted(layout.num_spec, 'speculative token')}, "
        f"{counted(layout.num_blocks, 'block')}, conv layout {layout.conv_layout}, "
        f"tables of {counted(layout.table_rows, 'row')} x {counted(layout.table_columns, 'column')}"
    )
    states = list(layout.states())
    for (group, layer, number), state in states[:SHOWN_STATES]:
        stride = counted(state.block_stride, "byte")
        gap = state.block_stride - state_extent(state)
        stride += f" ({gap} of padding)" if gap else ""
        where = f"buffer {state.buffer} from byte {state.offset}"
        shift = layout.buffers[state.buffer].misalignment
        where += f" ({shift} past alignment)" if shift else ""
        name = _named(group, layer, state, number)
        yield f"{name}: blocks {stride} apart, in {where}"
        yield f"    each holds {_holds(state)}"
    if len(states) > SHOWN_STATES:
        yield f"and {counted(len(states) - SHOWN_STATES, 'more state')}"


def _named(group: int, layer: int, state: State, number: int) -> str:
    """The name of a state, as in evidence."""
    kind = "conv" if isinstance(state, ConvState) else "temporal"
    return f"group {group}, layer {layer}, {kind} state {number}"


def _holds(state: State) -> str:
    if isinstance(state, ConvState):
        shape, elements = f"{counted(state.window, 'token')} x {state.dim}", state.window * state.dim
        rows = f", row stride {counted(state.row_stride, 'byte')}" if state.row_stride is not None else ""
    else:
        shape, elements, rows = " x ".join(map(str, state.shape)), prod(state.shape), ""
    noun = "element" if elements == 1 else "elements"
    size = counted(state.item_size, "byte")
    return f"{shape} {noun} of {size} = {counted(state.natural_bytes, 'byte')}{rows}"


def _tables(case: Case) -> Iterator[str]:
    for group, table in enumerate(case.contents.tables):
        for slot, cells in enumerate(table):
            if cells:
                yield f"group {group}, slot {slot}: {' '.join(map(str, cells))}"


def _operation(case: Case, operation: Operation, copies: Sequence[StateCopy]) -> Iterator[str]:
    """What an operation is asked for, what the specification makes of it, and the copies that follow."""
    if not isinstance(operation, Postprocess | Precopy):
        yield from _rows(operation)
    decisions = decide(operation, case.layout.block_size) if isinstance(operation, Postprocess | Precopy) else []
    for i, (row, decision) in enumerate(zip(rows_of(operation), decisions, strict=False)):
        if row.slot == SKIP_ROW or decision is None:
            yield f"request {i}: skipped by the mapping"
            continue
        if isinstance(operation, Postprocess):
            asked = operation.rows[i]
            numbers = (
                f"computed {asked.computed}, scheduled {asked.scheduled}, of them {counted(asked.draft, 'draft')}, "
                f"accepted {asked.accepted}, running state in column {asked.state_column}"
            )
        elif isinstance(operation, Precopy):
            wanted = operation.rows[i]
            source = "fresh" if wanted.source_column == FRESH else f"from column {wanted.source_column}"
            numbers = f"{source} to column {wanted.destination_column}, bias {wanted.bias}"
        else:
            continue
        move = decision.move
        does = (
            "nothing moves"
            if move is None
            else f"column {move.source} moves to column {move.destination}{_shifted(move.bias)}"
        )
        count = "" if decision.accepted is None else f"; accepted becomes {decision.accepted}"
        yield f"request {i} (slot {row.slot}): {numbers} -> {does}{count}"
    for copy in copies[:SHOWN_COPIES]:
        place = copy.place
        size = counted(copy.run_bytes, "byte")
        runs = f"{copy.runs} rows of {size}" if copy.runs > 1 else size
        yield (
            f"  slot {copy.slot}: {_named(place.group, place.layer, place.state, place.index)}: "
            f"block {copy.source_block} -> block {copy.destination_block}, {runs}"
        )
    if len(copies) > SHOWN_COPIES:
        yield f"  and {counted(len(copies) - SHOWN_COPIES, 'more copy', 'more copies')}"


def _shifted(bias: int) -> str:
    return f", shifted by {counted(bias, 'token')}" if bias else ""


def _rows(operation: Operation) -> Iterator[str]:
    """The numbers of an operation: those of the whole operation, then those of each row."""
    for name, value in msgspec.structs.asdict(operation).items():
        if name == "cells":
            for cell in value:
                yield f"group {cell.group}, slot {cell.slot}, column {cell.column}: now block {cell.block}"
        elif name == "absent":
            for absent in value:
                column = "no column" if absent.state_column is None else f"column {absent.state_column}"
                yield f"not in the batch: {absent.absence}, {column}"
        elif name != "rows":
            yield f"{name.replace('_', ' ')} {value}"
    for i, row in enumerate(rows_of(operation)):
        numbers = [f"{name.replace('_', ' ')} {value}" for name, value in msgspec.structs.asdict(row).items()]
        yield f"request {i}: {', '.join(numbers)}"
