"""A human-readable repro: layout, tables, requests, what moves where, expected against found.

Needs neither torch nor a target: the oracle says what should happen, the file what did happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path

import msgspec
from rich.console import Console
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
from harness.check.outcome import Difference, Evidence
from harness.issues.registry import kernel_issue
from harness.oracles.copies import StateCopy
from harness.oracles.decisions import decide
from harness.reports.console import ReportConsole
from harness.reports.pictures.copies_due import expected_copies, plan_of
from harness.reports.words import difference_in_words, places_in_words, violation_in_words
from harness.repro import Repro
from harness.text import counted

SHOWN_COPIES = 24
SHOWN_STATES = 64


def print_repro(file: Path, repro: Repro) -> None:
    """Print what a reader of a bug report wants to know first. Raises InvalidCase."""
    console = ReportConsole()
    origin = repro.origin
    case = repro.case
    copies = expected_copies(case, plan_of(case))  # an invalid case is refused before anything is printed
    console.print(Text(str(repro.signature), style="bold"))
    drawn = "" if origin.seed is None else f", seed {origin.seed}"
    drawn += "" if origin.index is None else f", case {origin.index}"
    words = violation_in_words(repro.signature.oracle, repro.signature.violation)
    console.print(Text(f"{words} (violation {repro.signature.violation})"))
    console.print(Text(f"{file}: found on {origin.target} ({origin.executor}){drawn}; {case.domain} domain"))
    known = kernel_issue(origin.target, repro.signature, case)
    if known is not None:
        console.print(Text(f"Looks like a known issue: {known.line}"))
    console.print(
        Text(
            "docs/violations.md explains a finding's name, docs/domain.md what has to happen",
            style="dim",
        )
    )
    _print_layout(console, case)
    _print_tables(console, case)
    _print_program(console, case, copies)
    _print_execution(console, case)
    console.print(Text("\nFound", style="bold"))
    print_evidence(console, repro.evidence)


def _print_execution(console: Console, case: Case) -> None:
    """How the case is run, where that matters to its finding."""
    run = case.execution
    parts = [f"programs in {run.program_order} order"]
    parts += [f"{run.interleave} programs at a time"] if run.interleave else []
    parts += ["warps independent"] if run.warps == "apart" else []
    parts += ["addresses of 2**63 and more"] if run.high_addresses else []
    parts += [f"checked: {', '.join(run.checks) or 'bytes alone'}"]
    console.print(Text("\nExecution", style="bold"))
    console.print(Text(", ".join(parts)))


def print_evidence(console: Console, evidence: Evidence) -> None:
    """Print one sentence, then the differing bytes, each run of them with what happened to it, then details.

    Each place occurs once: the sentence is left out if it is about the first of the differing bytes, and so are details
    that repeat it."""
    if evidence.diagnosis is not None:
        console.print(Text.assemble(("Diagnosis: ", "bold"), evidence.diagnosis.sentence))
    first = evidence.differences[0] if evidence.differences else None
    if first is None or not evidence.summary.startswith(f"{first.place}: "):
        console.print(Text(evidence.summary))
    for difference in evidence.differences:
        _print_difference(console, difference)
    if sum(difference.size for difference in evidence.differences) < evidence.total_bytes and evidence.differences:
        console.print(Text(f"{counted(evidence.total_bytes, 'byte')} differ in all", style="dim"))
    margin = "" if evidence.summary in evidence.details else "  "  # the sentence may be one of several similar ones
    for detail in dict.fromkeys(evidence.details):
        if detail != evidence.summary:
            console.print(Text(f"{margin}{detail}"))
    if evidence.places:
        console.print(Text(f"Lines: {places_in_words(evidence.places)}"))


def _print_difference(console: Console, difference: Difference) -> None:
    """Print bytes below each other, so that they can be compared on a narrow terminal."""
    unchanged = difference.found == difference.before
    what = difference_in_words(difference.violation, unchanged=unchanged)
    shown = len(difference.found.split())
    part = f"the first {shown} of " if shown < difference.size else ""
    console.print(Text(f"{difference.place}: {what}, {part}{counted(difference.size, 'byte')}"))
    for name in ("before", "expected", "found"):
        console.print(Text(f"    {name:9} {getattr(difference, name)}"))
    for text in (difference.contents, difference.writer):
        if text:
            console.print(Text(f"    {text}"))


def _print_layout(console: Console, case: Case) -> None:
    layout = case.layout
    console.print(Text("\nLayout", style="bold"))
    console.print(
        Text(
            f"block size {counted(layout.block_size, 'token')}, {counted(layout.num_spec, 'speculative token')}, "
            f"{counted(layout.num_blocks, 'block')}, conv layout {layout.conv_layout}, "
            f"tables of {counted(layout.table_rows, 'row')} x {counted(layout.table_columns, 'column')}"
        )
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
        console.print(Text(f"{name}: blocks {stride} apart, in {where}"))
        console.print(Text(f"    each holds {_holds(state)}"))
    if len(states) > SHOWN_STATES:
        console.print(Text(f"and {counted(len(states) - SHOWN_STATES, 'more state')}"))


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


def _print_tables(console: Console, case: Case) -> None:
    console.print(Text("\nBlock tables (cells not shown are stale)", style="bold"))
    for group, table in enumerate(case.contents.tables):
        for slot, cells in enumerate(table):
            if cells:
                console.print(Text(f"group {group}, slot {slot}: {' '.join(map(str, cells))}"))


def _print_program(console: Console, case: Case, copies: Sequence[Sequence[StateCopy]]) -> None:
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
            console.print(Text(f"request {i} (slot {row.slot}): {numbers} -> {does}{count}"))
        for copy in copies[index][:SHOWN_COPIES]:
            place = copy.place
            size = counted(copy.run_bytes, "byte")
            runs = f"{copy.runs} rows of {size}" if copy.runs > 1 else size
            console.print(
                Text(
                    f"  slot {copy.slot}: {_named(place.group, place.layer, place.state, place.index)}: "
                    f"block {copy.source_block} -> block {copy.destination_block}, {runs}"
                )
            )
        if len(copies[index]) > SHOWN_COPIES:
            console.print(Text(f"  and {counted(len(copies[index]) - SHOWN_COPIES, 'more copy', 'more copies')}"))


def _shifted(bias: int) -> str:
    return f", shifted by {counted(bias, 'token')}" if bias else ""


def _print_rows(console: Console, operation: Operation) -> None:
    """Print the numbers of an operation: those of the whole operation, then those of each row."""
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
