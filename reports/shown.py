"""A repro told in human words: layout, tables, requests, what moves where, expected against found.

Needs neither torch nor a target: the oracle says what should happen, the file what did.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

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
from harness.check.outcome import Evidence
from harness.memory import initial_image, plan_memory
from harness.oracles.decisions import decide
from harness.oracles.memory import expect
from harness.reports.console import ReportConsole
from harness.repro import Repro

SHOWN_COPIES = 24
SHOWN_STATES = 64


def print_repro(file: Path, repro: Repro) -> None:
    """Print everything a reader of a bug report wants to know first. Raises InvalidCase."""
    console = ReportConsole()
    origin = repro.origin
    case = repro.case
    plan_memory(case, 64)  # what cannot be a case is refused before anything is printed
    console.print(Text(str(repro.signature), style="bold"))
    drawn = "" if origin.seed is None else f", seed {origin.seed}"
    drawn += "" if origin.index is None else f", case {origin.index}"
    console.print(Text(f"{file}: found on {origin.target} ({origin.executor}){drawn}; {case.domain} domain"))
    _print_layout(console, case)
    _print_tables(console, case)
    _print_program(console, case)
    console.print(Text("\nFound", style="bold"))
    print_evidence(console, repro.evidence)


def print_evidence(console: Console, evidence: Evidence) -> None:
    """One sentence, then the differing bytes side by side."""
    console.print(Text(evidence.summary))
    if evidence.differences:
        table = Table(box=None, pad_edge=False, show_edge=False)
        for name in ("where", "bytes", "before", "expected", "found"):
            table.add_column(name, overflow="fold")
        for difference in evidence.differences:
            table.add_row(
                difference.place, str(difference.size), difference.before, difference.expected, difference.found
            )
        console.print(table)
        shown = sum(difference.size for difference in evidence.differences)
        if shown < evidence.total_bytes:
            console.print(Text(f"{evidence.total_bytes} bytes differ in all", style="dim"))
    for detail in evidence.details:
        console.print(Text(f"  {detail}"))


def _print_layout(console: Console, case: Case) -> None:
    layout = case.layout
    console.print(Text("\nLayout", style="bold"))
    console.print(
        Text(
            f"block size {layout.block_size} tokens, {layout.num_spec} speculative tokens, {layout.num_blocks} blocks, "
            f"conv layout {layout.conv_layout}, tables of {layout.table_rows} x {layout.table_columns}"
        )
    )
    table = Table(box=None, pad_edge=False, show_edge=False)
    for name in ("group", "layer", "state", "block holds", "block stride", "buffer"):
        table.add_column(name)
    states = list(layout.states())
    for (group, layer, _), state in states[:SHOWN_STATES]:
        stride = f"{state.block_stride} bytes"
        gap = state.block_stride - state_extent(state)
        stride += f" ({gap} of padding)" if gap else ""
        where = f"{state.buffer}, from byte {state.offset}"
        shift = layout.buffers[state.buffer].misalignment
        where += f", {shift} past alignment" if shift else ""
        table.add_row(str(group), str(layer), _kind(state), _holds(state), stride, where)
    console.print(table)
    if len(states) > SHOWN_STATES:
        console.print(Text(f"and {len(states) - SHOWN_STATES} more states"))


def _kind(state: State) -> str:
    return "conv" if isinstance(state, ConvState) else "temporal"


def _holds(state: State) -> str:
    if isinstance(state, ConvState):
        shape = f"{state.window} tokens x {state.dim}"
        rows = f", row stride {state.row_stride}" if state.row_stride is not None else ""
    else:
        shape, rows = " x ".join(map(str, state.shape)), ""
    return f"{shape} elements of {state.item_size} bytes = {state.natural_bytes} bytes{rows}"


def _print_tables(console: Console, case: Case) -> None:
    console.print(Text("\nBlock tables (cells not shown are stale)", style="bold"))
    for group, table in enumerate(case.contents.tables):
        for slot, cells in enumerate(table):
            if cells:
                console.print(Text(f"group {group}, slot {slot}: {' '.join(map(str, cells))}"))


def _print_program(console: Console, case: Case) -> None:
    plan = plan_memory(case, 64)
    image = initial_image(case, plan)
    for index, operation in enumerate(case.program):
        name = operation_name(operation)
        console.print(Text(f"\nOperation {index}: {name}, runner {operation.runner}", style="bold"))
        if not isinstance(operation, Postprocess | Precopy):
            _print_rows(console, operation)
        decisions = decide(operation, case.layout.block_size) if isinstance(operation, Postprocess | Precopy) else []
        for i, (row, decision) in enumerate(zip(rows_of(operation), decisions, strict=False)):
            if row.slot == SKIP_ROW or decision is None:
                console.print(Text(f"request {i}: skipped by the mapping"))
                continue
            if isinstance(operation, Postprocess):
                asked = operation.rows[i]
                numbers = (
                    f"computed {asked.computed}, scheduled {asked.scheduled}, of them {asked.draft} drafts, "
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
                else f"column {move.source} moves to column {move.destination}, {move.bias} tokens on"
            )
            count = "" if decision.accepted is None else f"; accepted becomes {decision.accepted}"
            console.print(Text(f"request {i} (slot {row.slot}): {numbers} -> {does}{count}"))
        expected = expect(case, plan, index, image)
        for copy in expected.copies[:SHOWN_COPIES]:
            place = copy.place
            runs = f"{copy.runs} rows of {copy.run_bytes} bytes" if copy.runs > 1 else f"{copy.run_bytes} bytes"
            console.print(
                Text(
                    f"  slot {copy.slot}: group {place.group}, layer {place.layer}, {_kind(place.state)}: "
                    f"block {copy.source_block} -> block {copy.destination_block}, {runs}"
                )
            )
        if len(expected.copies) > SHOWN_COPIES:
            console.print(Text(f"  and {len(expected.copies) - SHOWN_COPIES} more copies"))
        image = expected.image


def _print_rows(console: Console, operation: Operation) -> None:
    """The numbers of an operation as they are: what it is about as a whole, then row by row."""
    for name, value in msgspec.structs.asdict(operation).items():
        if name == "cells":
            for cell in value:
                console.print(
                    Text(f"group {cell.group}, slot {cell.slot}, column {cell.column}: now block {cell.block}")
                )
        elif name == "absent":
            for absent in value:
                column = "no column" if absent.state_column is None else f"column {absent.state_column}"
                console.print(Text(f"not in the batch: {absent.absence}, {column}"))
        elif name != "rows":
            console.print(Text(f"{name.replace('_', ' ')} {value}"))
    for i, row in enumerate(rows_of(operation)):
        numbers = [f"{name.replace('_', ' ')} {value}" for name, value in msgspec.structs.asdict(row).items()]
        console.print(Text(f"request {i}: {', '.join(numbers)}"))
