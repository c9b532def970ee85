"""Contents say where bytes that were found come from: another block, another place of the window, another state.

The payload of an arena is known and no two blocks are the same, so bytes that lie somewhere before an operation name
their origin. A few bytes prove little: fewer than LEAST are looked for at the same place of other blocks alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.case import ConvState
from harness.check.operation_run import OperationRun
from harness.memory import StatePlace, describe, state_block
from harness.oracles.copies import StateCopy

LEAST = 8
"""Fewer bytes occur anywhere by chance."""
LEAST_IN_PLACE = 3
"""Fewer bytes occur in other blocks by chance."""
MOST = 1024
"""Bytes of a run that are compared."""


def contents_in_words(run: OperationRun, start: int, size: int) -> str:
    """Where bytes like those found at `[start, start + size)` lay before the operation, and whose were expected; empty
    if neither is known."""
    size = min(size, MOST)
    found = run.found.view(start, size)
    copy = _copy_to(run, start)
    expected = "" if copy is None else f"expected the bytes of {_source(copy)}"
    if np.array_equal(found, run.before.view(start, size)):
        return expected  # that they are as before is what the difference says
    number = _numbers(run, start, size)
    if number:
        return number
    where = state_block(run.case, run.plan, start)
    if where is not None and size >= LEAST_IN_PLACE:
        place, block = where
        for other, shift in _same_state(run, place, start - place.block(block)):
            if _holds(run, other, found):
                return _sentence(expected, _found_in(run, place, (other - place.start), shift, copy))
    if size >= LEAST:
        at = _anywhere(run, found)
        if at is not None:
            return _sentence(expected, f"found those of {describe(run.case, run.plan, at).name}")
    return _sentence(expected, "")


def _sentence(expected: str, found: str) -> str:
    return ", ".join(part for part in (expected, found) if part)


def _copy_to(run: OperationRun, offset: int) -> StateCopy | None:
    """The copy that had to write a byte."""
    for copy in [] if run.expected is None else run.expected.copies:
        within = offset - copy.destination
        if not 0 <= within < copy.span:
            continue
        if copy.run_stride == 0 or within % copy.run_stride < copy.run_bytes:
            return copy
    return None


def _source(copy: StateCopy) -> str:
    bias = copy.move.bias
    column = copy.move.source + (0 if isinstance(copy.place.state, ConvState) else bias)
    shifted = f" from token {bias} on" if isinstance(copy.place.state, ConvState) and bias else ""
    return f"block {copy.source_block} (column {column} of slot {copy.slot}){shifted}"


def _same_state(run: OperationRun, place: StatePlace, within: int) -> Iterator[tuple[int, int]]:
    """Offsets of the same byte in other blocks of a state, then of the same row in other tokens of a window, each with
    the number of tokens that it lies further on."""
    blocks = range(run.case.layout.num_blocks)
    for block in blocks:
        yield place.block(block) + within, 0
    state = place.state
    if not isinstance(state, ConvState):
        return
    token_bytes = state.item_size if state.row_stride is not None else state.dim * state.item_size
    for shift in sorted(range(-state.window + 1, state.window), key=abs):
        if shift:
            for block in blocks:
                yield place.block(block) + within + shift * token_bytes, shift


def _holds(run: OperationRun, offset: int, found: np.ndarray) -> bool:
    try:
        return bool(np.array_equal(run.before.view(offset, len(found)), found))
    except IndexError:
        return False


def _found_in(run: OperationRun, place: StatePlace, offset: int, shift: int, copy: StateCopy | None) -> str:
    block = offset // place.state.block_stride
    text = f"found those of block {block}"
    if shift:
        text += f", {abs(shift)} token{'s' * (abs(shift) != 1)} {'further on' if shift > 0 else 'before'}"
    return text + _whose(run, place.group, block, copy)


def _whose(run: OperationRun, group: int, block: int, copy: StateCopy | None) -> str:
    """What leads to a block: a cell at the same place of another table or row, else a cell of the group's own table."""
    tables = run.case.contents.tables

    def cell(of: int, slot: int, column: int) -> int | None:
        row = tables[of][slot] if slot < len(tables[of]) else ()
        return row[column] if 0 <= column < len(row) else None

    if copy is not None:
        column = copy.move.source + (0 if isinstance(copy.place.state, ConvState) else copy.move.bias)
        if copy.source_block == block:
            return f" (column {column} of slot {copy.slot})"
        for other in range(len(tables)):
            if other != group and cell(other, copy.slot, column) == block:
                return f", which is what group {other}'s table has there"
        for slot in range(len(tables[group])):
            if slot != copy.slot and cell(group, slot, column) == block:
                return f", which is what slot {slot} has there"
    cells = [
        f"column {column} of slot {slot}"
        for slot, row in enumerate(tables[group])
        for column, held in enumerate(row)
        if held == block
    ]
    return f" ({', '.join(cells[:2])})" if cells else ""


def _anywhere(run: OperationRun, found: np.ndarray) -> int | None:
    """The only place where memory held these bytes before; None if there are several or none."""
    wanted, places = found.tobytes(), list[int]()
    for start, data in run.before.segments:
        text, at = data.tobytes(), -1
        while (at := text.find(wanted, at + 1)) >= 0:
            places.append(start + at)
            if len(places) > 1:
                return None
    return places[0] if places else None


def _numbers(run: OperationRun, start: int, size: int) -> str:
    """For an entry of an argument: the numbers that were expected and found."""
    for spans in run.plan.arrays:
        for span in spans.values():
            if span.start <= start < span.start + span.size:
                first = (start - span.start) // span.item
                entry = span.start + first * span.item
                kind = np.int32 if span.item == 4 else np.int64
                values = [
                    int(image.view(entry, span.item).view(kind)[0])
                    for image in (run.before, run.expected.image if run.expected else run.before, run.found)
                ]
                return f"{span.name}[{first}] was {values[0]}, expected {values[1]}, found {values[2]}"
    return ""
