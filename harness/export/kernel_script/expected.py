"""What memory has to hold after states have moved: scalar code, from the bytes before the call."""

from __future__ import annotations

from typing import Any, NamedTuple

from harness.export.kernel_script.memory import Image, Memory, states_of


class Move(NamedTuple):
    """Every state of the request in a slot moves from one column of its block-table row to another; the state wanted is
    `bias` tokens further on than the one in the source column."""

    slot: int
    source: int
    destination: int
    bias: int


class Expected(NamedTuple):
    """Memory after the call, and numbers that the host or the device hands back, by name; None: any number is right."""

    image: Image
    numbers: dict[str, list[Any]]


def after_moves(memory: Memory, before: Image, moves: list[Move]) -> Image:
    """Memory after these moves. All of them read what was there before the call."""
    case, image = memory.case, before.copy()
    for move in moves:
        for (group, _, _), state in states_of(case):
            row = case.tables[group][move.slot]
            to = memory.block(state, row[move.destination])
            if state.kind == "temporal":  # there is one for each draft, in the columns behind the running state's
                size = state.item
                for length in state.shape:
                    size *= length
                image.move(memory.block(state, row[move.source + move.bias]), to, size, before)
                continue
            # A window: its tokens from `bias` on move to the front; the last `bias` ones stay as they were.
            start = memory.block(state, row[move.source])
            if case.conv_layout == "SD":  # tokens one after the other
                (window, dim), (per_token, _) = state.shape, state.strides
                rows, per_row, size = 1, 0, (window - move.bias) * dim * state.item
            else:
                (rows, window), (per_row, per_token) = state.shape, state.strides
                size = (window - move.bias) * state.item
            for number in range(rows if size > 0 else 0):
                here = number * per_row
                image.move(start + here + move.bias * per_token, to + here, size, before)
    return image
