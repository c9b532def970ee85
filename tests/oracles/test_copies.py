"""Copies of single states, with addresses calculated by hand from docs/domain.md, section 5."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case import InvalidCase, Layout
from harness.memory import plan_layout
from harness.oracles.copies import StateCopy, copy_of_state
from harness.oracles.decisions import Move

BUFFER = 8192
"""Where the buffer of `make_layout` starts."""
TABLES = {0: [1, 2, 3, 4], 1: [4, 3, 2, 1]}


def copy(layout: Layout, state: int, move: Move) -> StateCopy | None:
    place = plan_layout(layout).states[state]
    return copy_of_state(layout, place, 5, 2, move, lambda group, slot, column: TABLES[group][column])


def runs(made: StateCopy | None) -> tuple[int, int, int, int, int] | None:
    """Source and destination relative to the buffer, bytes of a run, number of runs, bytes between runs."""
    if made is None:
        return None
    return made.source - BUFFER, made.destination - BUFFER, made.run_bytes, made.runs, made.run_stride


@pytest.mark.parametrize(
    ("bias", "wanted"),
    [
        (0, (1 * 64, 3 * 64, 24, 1, 0)),
        (1, (1 * 64 + 8, 3 * 64, 16, 1, 0)),  # a token is 4 elements of 2 bytes
        (2, (1 * 64 + 16, 3 * 64, 8, 1, 0)),
        (3, None),  # a bias of the whole window
        (4, None),
        (1000, None),
    ],
)
def test_conv_sd(make_layout: Callable[..., Layout], bias: int, wanted: tuple[int, int, int, int, int] | None) -> None:
    with_columns = Move(0, 2, bias)
    assert runs(copy(make_layout("SD"), 0, with_columns)) == wanted


@pytest.mark.parametrize(
    ("bias", "wanted"),
    [
        (0, (1 * 64, 3 * 64, 6, 4, 8)),
        (1, (1 * 64 + 2, 3 * 64, 4, 4, 8)),
        (2, (1 * 64 + 4, 3 * 64, 2, 4, 8)),
        (3, None),
        (4, None),
    ],
)
def test_conv_ds(make_layout: Callable[..., Layout], bias: int, wanted: tuple[int, int, int, int, int] | None) -> None:
    assert runs(copy(make_layout("DS"), 0, Move(0, 2, bias))) == wanted


@pytest.mark.parametrize(
    ("move", "blocks"),
    [(Move(0, 2, 0), (1, 3)), (Move(0, 2, 1), (2, 3)), (Move(1, 0, 2), (4, 1)), (Move(2, 2, 1), (4, 3))],
)
def test_temporal_comes_from_the_column_of_the_accepted_token(
    make_layout: Callable[..., Layout], move: Move, blocks: tuple[int, int]
) -> None:
    """Its size is that of the elements (24 bytes), never the page's (64)."""
    made = copy(make_layout(), 1, move)
    source, destination = blocks
    assert runs(made) == (source * 64 + 32, destination * 64 + 32, 24, 1, 0)
    assert made is not None
    assert (made.source_block, made.destination_block, made.row, made.slot, made.span) == (*blocks, 5, 2, 24)


def test_every_group_has_its_own_table(make_layout: Callable[..., Layout]) -> None:
    assert runs(copy(make_layout(), 2, Move(0, 1, 0))) == (4 * 64, 3 * 64, 32, 1, 0)


def test_span_reaches_from_the_first_run_to_the_last(make_layout: Callable[..., Layout]) -> None:
    made = copy(make_layout("DS"), 0, Move(0, 2, 1))
    assert made is not None
    assert made.span == 3 * 8 + 4


@pytest.mark.parametrize(
    ("state", "move", "column"),
    [
        (0, Move(4, 0, 0), 4),
        (0, Move(0, 4, 0), 4),
        (0, Move(-2, 0, 0), -2),
        (0, Move(0, -1, 0), -1),
        (1, Move(2, 0, 2), 4),
        (1, Move(3, 0, 1), 4),
        (0, Move(0, 2**20, 3), 2**20),  # refused even where nothing would move
    ],
)
def test_columns_outside_the_row_are_refused(
    make_layout: Callable[..., Layout], state: int, move: Move, column: int
) -> None:
    with pytest.raises(InvalidCase, match=f"^slot 2: column {column} is outside the table row of 4 cells$"):
        copy(make_layout(), state, move)


def test_conv_does_not_read_the_column_of_the_accepted_token(make_layout: Callable[..., Layout]) -> None:
    assert runs(copy(make_layout(), 0, Move(3, 0, 2))) == (4 * 64 + 16, 64, 8, 1, 0)


@pytest.mark.parametrize("block", [-1, 5, 2**31 - 1])
def test_blocks_outside_the_pool_are_refused(make_layout: Callable[..., Layout], block: int) -> None:
    layout = make_layout()
    place = plan_layout(layout).states[0]
    with pytest.raises(InvalidCase, match=f"column 1 of group 0 names block {block}, outside the pool"):
        copy_of_state(layout, place, 0, 0, Move(0, 1, 0), lambda group, slot, column: [1, block][column])
