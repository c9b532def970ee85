"""Decisions, against tables of numbers calculated by hand from docs/domain.md, sections 3 and 4."""

from __future__ import annotations

from itertools import product

import pytest

from harness.case import Postprocess, PostprocessRow, Precopy, PrecopyRow, landing
from harness.oracles.decisions import Decision, Move, decide, decide_postprocess, decide_precopy

# Block size 4 throughout. Columns: computed, scheduled, draft, accepted, state column -> move, accepted afterwards.
POSTPROCESS = [
    # One token, no drafts: running 3, 4, 5. A boundary is reached by the kept token itself, so there is no bias.
    (2, 1, 0, 1, 0, None, 1),
    (3, 1, 0, 1, 0, None, 1),  # aligned 4 == running 4, source == destination, bias 0: only the count is reset
    (4, 1, 0, 1, 1, None, 1),
    # Two drafts from 3 computed tokens: running 4 is on the boundary already.
    (3, 3, 2, 1, 1, (1, 0, 0), 1),
    (3, 3, 2, 2, 1, (1, 0, 0), 2),
    (3, 3, 2, 3, 1, (1, 0, 0), 3),
    # From 2 computed tokens: running 3; the boundary needs one accepted draft.
    (2, 3, 2, 1, 1, None, 1),
    (2, 3, 2, 2, 1, (1, 0, 1), 2),
    (2, 3, 2, 3, 1, (1, 0, 1), 3),
    # From 1 computed token: running 2; the boundary needs both drafts, and then is in the running block.
    (1, 3, 2, 1, 0, None, 1),
    (1, 3, 2, 2, 0, None, 2),
    (1, 3, 2, 3, 0, (0, 0, 2), 1),
    # From 0 and from 4 computed tokens no number of drafts reaches a boundary.
    (0, 3, 2, 3, 0, None, 3),
    (4, 3, 2, 3, 1, None, 3),
    # Accepted 0 never copies, the count stays 0.
    (3, 1, 0, 0, 0, None, 0),
    (4, 1, 0, 0, 1, None, 0),
    (1, 1, 0, 0, 0, None, 0),  # running 2, new 1
    (0, 1, 0, 0, 0, None, 0),  # running 1, new 0: aligned 0 is below running
    # Many drafts: two boundaries within one step, the last one counts.
    (1, 10, 9, 10, 2, (2, 1, 6), 10),  # running 2, new 11, aligned 8
    (1, 10, 9, 7, 2, (2, 1, 6), 7),  # new 8
    (1, 10, 9, 6, 2, (2, 0, 2), 6),  # new 7, aligned 4
    # Prefill of whole blocks: running 8, 12.
    (0, 8, 0, 1, 1, None, 1),
    (4, 8, 0, 1, 2, None, 1),
    (4, 8, 0, 1, 3, (3, 2, 0), 1),
    # More accepted than drafted (total domain only): running 4, new 8.
    (3, 1, 0, 5, 0, (0, 1, 4), 5),
    # Near the end of int32: running 2**30 + 2, new and aligned 2**30 + 4.
    (2**30, 3, 1, 3, 5, (5, 2**28, 2), 3),
]


@pytest.mark.parametrize(("computed", "scheduled", "draft", "accepted", "column", "move", "after"), POSTPROCESS)
def test_postprocess(
    computed: int,
    scheduled: int,
    draft: int,
    accepted: int,
    column: int,
    move: tuple[int, int, int] | None,
    after: int,
) -> None:
    row = PostprocessRow(
        slot=6, scheduled=scheduled, computed=computed, draft=draft, accepted=accepted, state_column=column
    )
    assert decide_postprocess(row, 4) == Decision(6, None if move is None else Move(*move), after)


@pytest.mark.parametrize(("size", "move"), [(1, (0, 5, 2)), (2, (0, 2, 2)), (3, (0, 1, 2)), (5, (0, 0, 1)), (6, None)])
def test_postprocess_under_other_block_sizes(size: int, move: tuple[int, int, int] | None) -> None:
    """Four kept tokens and two accepted drafts: running 4, new 6, aligned 6, 6, 6, 5, 6."""
    row = PostprocessRow(slot=0, scheduled=3, computed=3, draft=2, accepted=3, state_column=0)
    if size == 6:  # on the boundary of block 0 and in it: a shift by two
        move = (0, 0, 2)
    assert decide_postprocess(row, size).move == (None if move is None else Move(*move))


def test_the_state_column_decides_about_the_reset() -> None:
    def after(column: int) -> int | None:
        row = PostprocessRow(slot=0, scheduled=3, computed=2, draft=2, accepted=3, state_column=column)
        return decide_postprocess(row, 4).accepted

    assert [after(column) for column in (0, 1, 2)] == [1, 3, 3]


@pytest.mark.parametrize(
    ("source", "destination", "bias", "move"),
    [
        (-1, 0, 0, None),
        (-1, 3, 2, None),
        (0, 0, 0, None),
        (2, 2, 3, None),
        (0, 1, 0, Move(0, 1, 0)),
        (0, 1, 2, Move(0, 1, 2)),
        (3, 2, 0, Move(3, 2, 0)),
        (0, 7, 0, Move(0, 7, 0)),
    ],
)
def test_precopy(source: int, destination: int, bias: int, move: Move | None) -> None:
    row = PrecopyRow(slot=2, source_column=source, destination_column=destination, bias=bias)
    assert decide_precopy(row) == Decision(2, move, None)


def test_rows_that_the_mapping_skips_decide_nothing() -> None:
    rows = tuple(PrecopyRow(slot=slot, source_column=0, destination_column=1, bias=0) for slot in (3, -1, 0))
    decided = decide(Precopy(runner="V2", rows=rows), 4)
    assert [None if d is None else d.slot for d in decided] == [3, None, 0]
    post = PostprocessRow(slot=-1, scheduled=1, computed=3, draft=0, accepted=1, state_column=0)
    assert decide(Postprocess(runner="V2", rows=(post,)), 4) == [None]


@pytest.mark.parametrize("block_size", range(1, 8))
def test_the_rule_of_generators_and_the_rule_of_the_oracle_are_one(block_size: int) -> None:
    """Every running count, accepted count and column of a few blocks: both statements of the rule agree."""
    seen = set()
    for running, accepted, column in product(range(1, 4 * block_size + 2), range(2 * block_size + 3), range(6)):
        row = PostprocessRow(slot=0, scheduled=running, computed=0, draft=0, accepted=accepted, state_column=column)
        landed = landing(row.running, row.accepted, block_size)
        stays = landed is not None and landed.column == column
        moves = landed is not None and not (stays and landed.bias == 0)
        decided = decide_postprocess(row, block_size)
        assert decided.move == (Move(column, *landed) if landed is not None and moves else None)
        assert decided.accepted == (1 if stays else accepted)
        seen.add((landed is None, stays, moves))
    assert len(seen) == 4, "no landing; one in the running block, with and without a bias; one in another"
