"""Regimes of the decisions about rows: which of them move, by how much, and what happens to their counts."""

from __future__ import annotations

from harness.case import FRESH, Postprocess, PostprocessRow, Precopy
from harness.regimes.facts import Facts
from harness.regimes.regime import Regime


def _is_decode(row: PostprocessRow) -> bool:
    return row.scheduled == row.draft + 1 and row.computed > 0


def _keeps_count(f: Facts) -> bool:
    """Whether a count above 1 belongs to a row that no reset touches."""
    return sum(row.accepted > 1 for row in f.posts) > sum(row.accepted > 1 for row in f.resets)


REGIMES: tuple[Regime, ...] = (
    Regime("nothing-moves", "no row that moves state", lambda f: not f.moves),
    Regime(
        "everything-moves",
        "rows that all move state",
        lambda f: len(f.moves) == len(f.posts) + len(f.pres) > 0,
    ),
    Regime(
        "decode", "a decode row: one token more than it has drafts", lambda f: any(_is_decode(row) for row in f.posts)
    ),
    Regime(
        "prefill-over-several-blocks",
        "a prefill chunk over more than one block",
        lambda f: (
            any(row.scheduled - row.draft > f.layout.block_size for row in f.posts)
            or any(row.destination_column - row.source_column > 1 for row in f.pres if row.source_column != FRESH)
        ),
    ),
    Regime(
        "fresh-request",
        "a precopy row without a source column",
        lambda f: any(r.source_column == FRESH for r in f.pres),
    ),
    Regime("zero-drafts", "a postprocess row without drafts", lambda f: any(row.draft == 0 for row in f.posts)),
    Regime(
        "none-accepted",
        "drafts, none of which was kept",
        lambda f: any(r.draft > 0 and r.accepted == 1 for r in f.posts),
    ),
    Regime(
        "all-drafts-accepted",
        "drafts that were all kept",
        lambda f: any(row.draft > 0 and row.accepted == row.draft + 1 for row in f.posts),
    ),
    Regime(
        "some-drafts-accepted",
        "drafts, some of which were kept",
        lambda f: any(1 < row.accepted <= row.draft for row in f.posts),
    ),
    Regime(
        "accepted-zero", "an accepted count of 0", lambda f: any(row.accepted == 0 for row in f.posts), reachable=False
    ),
    Regime(
        "accepted-beyond-drafts",
        "more accepted tokens than drafts allow",
        lambda f: any(row.accepted > row.draft + 1 for row in f.posts),
        reachable=False,
    ),
    Regime("reset-of-accepted", "an accepted count that is reset", lambda f: any(r.accepted > 1 for r in f.resets)),
    Regime("count-kept", "an accepted count above 1 that stays", _keeps_count),
    Regime(
        "boundary-not-reached", "a row that ends inside a block", lambda f: any(row.accepted > 0 for row in f.still)
    ),
    Regime(
        "sums-near-int32",
        "token counts whose sum is near the largest int32",
        lambda f: any(row.computed + row.scheduled > 2**31 - 16 for row in f.posts),
        reachable=False,
    ),
    Regime(
        "postprocess-to-the-right",
        "a postprocess move to a later column",
        lambda f: any(
            move.destination > move.source for move in f.moves if isinstance(f.case.program[move.launch], Postprocess)
        ),
        reachable=False,
    ),
    Regime(
        "precopy-to-the-left",
        "a precopy move to an earlier column",
        lambda f: any(
            move.destination < move.source for move in f.moves if isinstance(f.case.program[move.launch], Precopy)
        ),
    ),
    Regime(
        "far-column",
        "a move to or from column 32 or later",
        lambda f: any(max(m.source, m.destination) > 31 for m in f.moves),
    ),
)
