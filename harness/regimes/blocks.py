"""Regimes of the blocks of a move: the same one, another one, shared, aliased, null; and their table entries."""

from __future__ import annotations

from collections.abc import Sequence

from harness.regimes.copies import differ
from harness.regimes.facts import Facts, StateMove
from harness.regimes.regime import Regime


def _shifts(f: Facts, conv_layout: str | None, least_bias: int) -> bool:
    return conv_layout in (None, f.layout.conv_layout) and any(
        copy.shift and copy.block_move.move.bias >= least_bias and not differ(copy) for copy in f.copies
    )


def _shares_source(f: Facts) -> bool:
    readers: dict[tuple[int, int, int], int] = {}
    for b in f.block_moves:
        for block in (b.source_block, b.spec_block):
            if block and readers.setdefault((b.move.launch, b.group, block), b.move.slot) != b.move.slot:
                return True
    return False


def _has_stale_id(f: Facts) -> bool:
    targets: list[dict[int, int]] = [{} for _ in f.layout.groups]
    for b in f.block_moves:
        targets[b.group][b.destination_block] = b.move.slot
    return any(
        not found.keys().isdisjoint(row) and any(found.get(block, slot) != slot for block in row)
        for found, table in zip(targets, f.case.contents.tables, strict=True)
        if found
        for slot, row in enumerate(table)
    )


def _names_one_twice(row: Sequence[int]) -> bool:
    return len(set(row)) < len(row) and len(row) - row.count(0) > len(set(row) - {0})


def _tables_differ(f: Facts) -> bool:
    first: dict[StateMove, int] = {}
    return any(first.setdefault(b.move, b.destination_block) != b.destination_block for b in f.block_moves)


REGIMES: tuple[Regime, ...] = (
    Regime("move-between-blocks", "a move from one block to another", lambda f: any(differ(c) for c in f.copies)),
    Regime("same-block-shift-sd", "an overlapping SD window shift", lambda f: _shifts(f, "SD", 1)),
    Regime("same-block-shift-ds", "an overlapping DS window shift", lambda f: _shifts(f, "DS", 1)),
    Regime("same-block-shift-bias-2+", "an overlapping shift by two tokens or more", lambda f: _shifts(f, None, 2)),
    Regime(
        "bias-at-least-window",
        "a bias that leaves nothing of a window to move",
        lambda f: any(0 < f.of_layout.windows[b.group] <= b.move.bias for b in f.block_moves),
        reachable=False,
    ),
    Regime(
        "temporal-from-spec-column",
        "a temporal state taken from a speculative column",
        lambda f: any(
            b.move.bias > 0 and f.of_layout.has_temporal[b.group] and b.spec_block != b.destination_block
            for b in f.block_moves
        ),
    ),
    Regime(
        "temporal-onto-itself",
        "a temporal state that is already where it belongs",
        lambda f: any(f.of_layout.has_temporal[b.group] and b.spec_block == b.destination_block for b in f.block_moves),
    ),
    Regime(
        "aliased-columns",
        "a move between two columns that hold one block",
        lambda f: any(
            b.source_block == b.destination_block and b.move.source != b.move.destination for b in f.block_moves
        ),
        reachable=False,
    ),
    Regime(
        "null-source",
        "the null block as a source",
        lambda f: any(0 in (b.source_block, b.spec_block) for b in f.block_moves),
        reachable=False,
    ),
    Regime("shared-source", "a source block of two requests", _shares_source),
    Regime(
        "block-under-two-columns",
        "a table row that names one block twice",
        lambda f: any(_names_one_twice(row) for table in f.case.contents.tables for row in table),
    ),
    Regime(
        "null-columns",
        "null cells in a table row",
        lambda f: any(0 in row for table in f.case.contents.tables for row in table),
    ),
    Regime("stale-id-of-live-block", "a destination block that another row still names", _has_stale_id),
    Regime("tables-differ", "groups with different blocks in the columns of a move", _tables_differ),
)
