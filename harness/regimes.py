"""A regime is a named situation that a case can be in: a same-block shift in DS layout, a padded page, ...

Counting regimes shows what a run really tested. A regime is a predicate of the decoded case, never a flag that its
generator set: so a case from a file, a corpus or a shrinker counts as well, and a generator cannot claim too much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.case import FRESH, SKIP_ROW, Case, ConvState, Postprocess, PostprocessRow, Precopy, State
from harness.facts import Copy, Facts, Move, is_within_block

Predicate = Callable[[Facts], bool]


@dataclass(frozen=True)
class Regime:
    """`summary` completes the sentence "the case has ...".

    `reachable`: whether a scheduler can produce it. `of_layout`: whether the layout alone decides.
    """

    name: str
    summary: str
    predicate: Predicate
    reachable: bool = True
    of_layout: bool = False

    def holds(self, case: Case) -> bool:
        """Whether `case` is in this regime."""
        return self.predicate(Facts(case))


REGIMES: dict[str, Regime] = {}


def regimes_of(case: Case) -> frozenset[str]:
    """Names of all regimes that `case` is in."""
    facts = Facts(case)
    of_layout = facts.of_layout.regimes
    if of_layout is None:
        of_layout = frozenset([name for name, predicate in _OF_LAYOUT if predicate(facts)])
        facts.of_layout.regimes = of_layout
    return of_layout.union([name for name, predicate in _OF_CASE if predicate(facts)])


_OF_LAYOUT: list[tuple[str, Predicate]] = []
_OF_CASE: list[tuple[str, Predicate]] = []


def _add(name: str, summary: str, predicate: Predicate, *, reachable: bool = True, of_layout: bool = False) -> None:
    REGIMES[name] = Regime(name, summary, predicate, reachable, of_layout)
    (_OF_LAYOUT if of_layout else _OF_CASE).append((name, predicate))


def _add_of_layout(name: str, summary: str, predicate: Predicate, *, reachable: bool = True) -> None:
    _add(name, summary, predicate, reachable=reachable, of_layout=True)


# Parts of predicates that need more than one line.


def _is_decode(row: PostprocessRow) -> bool:
    return row.scheduled == row.draft + 1 and row.computed > 0


def _keeps_count(f: Facts) -> bool:
    """Whether a count above 1 belongs to a row that no reset touches."""
    return sum(row.accepted > 1 for row in f.posts) > sum(row.accepted > 1 for row in f.resets)


def _reaches(f: Facts, distance: int) -> bool:
    return any(
        max(_origin(copy), copy.block_move.destination_block) * copy.state.block_stride >= distance for copy in f.copies
    )


def _is_temporal(copy: Copy) -> bool:
    return not isinstance(copy.state, ConvState)


def _differ(copy: Copy) -> bool:
    return _origin(copy) != copy.block_move.destination_block


def _origin(copy: Copy) -> int:
    return copy.block_move.spec_block if _is_temporal(copy) else copy.block_move.source_block


def _shifts(f: Facts, conv_layout: str | None, least_bias: int) -> bool:
    return conv_layout in (None, f.layout.conv_layout) and any(
        copy.shift and copy.block_move.move.bias >= least_bias and not _differ(copy) for copy in f.copies
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
        any(found[block] != slot for block in found.keys() & set(row))
        for found, table in zip(targets, f.case.contents.tables, strict=True)
        if found
        for slot, row in enumerate(table)
    )


def _tables_differ(f: Facts) -> bool:
    first: dict[Move, int] = {}
    return any(first.setdefault(b.move, b.destination_block) != b.destination_block for b in f.block_moves)


def _layers(f: Facts, relation: Callable[[State, State], bool]) -> bool:
    """Whether the first two layers of a group lie in this relation to each other."""
    return any(
        len(group.layers) > 1 and relation(group.layers[0].states[0], group.layers[1].states[0])
        for group in f.layout.groups
    )


def _one_after_the_other(one: State, other: State) -> bool:
    return one.buffer == other.buffer and not is_within_block(one, other)


def _address_distance(copy: Copy) -> int:
    """Bytes from where a copy writes to where it reads."""
    return (_origin(copy) - copy.block_move.destination_block) * copy.state.block_stride + copy.shift


def _ds_row_is_odd(copy: Copy) -> bool:
    return copy.rows > 1 and isinstance(copy.state, ConvState) and (copy.state.row_stride or 0) % 8 != 0


# What is called, and for whom.
_add("postprocess-v1", "a postprocess by batch rows", lambda f: f.launches(Postprocess, "V1"))
_add("postprocess-v2", "a postprocess through a mapping", lambda f: f.launches(Postprocess, "V2"))
_add("precopy-v1", "a precopy by batch rows", lambda f: f.launches(Precopy, "V1"))
_add("precopy-v2", "a precopy through a mapping", lambda f: f.launches(Precopy, "V2"))
_add("several-operations", "a program of more than one operation", lambda f: len(f.case.program) > 1)
_add(
    "no-requests",
    "an operation on an empty batch",
    lambda f: any(not operation.rows for operation in f.case.program),
    reachable=False,
)
_add(
    "one-request",
    "an operation on one request",
    lambda f: any(len(operation.rows) == 1 for operation in f.case.program),
)
_add(
    "many-requests",
    "an operation on eight or more requests",
    lambda f: any(len(operation.rows) >= 8 for operation in f.case.program),
)
_add(
    "sparse-mapping",
    "a mapping that leaves slots out",
    lambda f: any(slots and max(slots) >= len(slots) for slots in f.mappings),
)
_add(
    "permuted-mapping",
    "a mapping that is not in slot order",
    lambda f: any(slots != sorted(slots) for slots in f.mappings),
)
_add(
    "skipped-row",
    "a mapping with a row to skip",
    lambda f: any(row.slot == SKIP_ROW for operation in f.case.program for row in operation.rows),
)

# Decisions.
_add("nothing-moves", "no row that moves state", lambda f: not f.moves)
_add(
    "everything-moves",
    "rows, and every one of them moves state",
    lambda f: len(f.moves) == len(f.posts) + len(f.pres) > 0,
)
_add("decode", "a decode row: one token more than it has drafts", lambda f: any(_is_decode(row) for row in f.posts))
_add(
    "prefill-over-several-blocks",
    "a prefill chunk over more than one block",
    lambda f: (
        any(row.scheduled - row.draft > f.layout.block_size for row in f.posts)
        or any(row.destination_column - row.source_column > 1 for row in f.pres if row.source_column != FRESH)
    ),
)
_add("fresh-request", "a precopy row without a source column", lambda f: any(r.source_column == FRESH for r in f.pres))
_add("zero-drafts", "a postprocess row without drafts", lambda f: any(row.draft == 0 for row in f.posts))
_add("none-accepted", "drafts of which none was kept", lambda f: any(r.draft > 0 and r.accepted == 1 for r in f.posts))
_add(
    "all-drafts-accepted",
    "drafts that were all kept",
    lambda f: any(row.draft > 0 and row.accepted == row.draft + 1 for row in f.posts),
)
_add(
    "some-drafts-accepted",
    "drafts of which a part was kept",
    lambda f: any(1 < row.accepted <= row.draft for row in f.posts),
)
_add("accepted-zero", "an accepted count of 0", lambda f: any(row.accepted == 0 for row in f.posts), reachable=False)
_add(
    "accepted-beyond-drafts",
    "more accepted tokens than drafts allow",
    lambda f: any(row.accepted > row.draft + 1 for row in f.posts),
    reachable=False,
)
_add("reset-of-accepted", "an accepted count that is reset", lambda f: any(r.accepted > 1 for r in f.resets))
_add("count-kept", "an accepted count above 1 that stays", _keeps_count)
_add("boundary-not-reached", "a row that ends inside a block", lambda f: any(row.accepted > 0 for row in f.still))
_add(
    "sums-near-int32",
    "token counts whose sum is near the largest int32",
    lambda f: any(row.computed + row.scheduled > 2**31 - 16 for row in f.posts),
    reachable=False,
)
_add(
    "postprocess-to-the-right",
    "a postprocess move to a later column",
    lambda f: any(
        move.destination > move.source for move in f.moves if isinstance(f.case.program[move.launch], Postprocess)
    ),
    reachable=False,
)
_add(
    "precopy-to-the-left",
    "a precopy move to an earlier column",
    lambda f: any(
        move.destination < move.source for move in f.moves if isinstance(f.case.program[move.launch], Precopy)
    ),
)
_add(
    "far-column",
    "a move to or from column 32 or later",
    lambda f: any(max(m.source, m.destination) > 31 for m in f.moves),
)

# Blocks.
_add("move-between-blocks", "a move from one block to another", lambda f: any(_differ(c) for c in f.copies))
_add("same-block-shift-sd", "an overlapping SD window shift", lambda f: _shifts(f, "SD", 1))
_add("same-block-shift-ds", "an overlapping DS window shift", lambda f: _shifts(f, "DS", 1))
_add("same-block-shift-bias-2+", "an overlapping shift by two tokens or more", lambda f: _shifts(f, None, 2))
_add(
    "bias-at-least-window",
    "a bias that leaves nothing of a window to move",
    lambda f: any(0 < f.of_layout.windows[b.group] <= b.move.bias for b in f.block_moves),
    reachable=False,
)
_add(
    "temporal-from-spec-column",
    "a temporal state taken from a speculative column",
    lambda f: any(
        b.move.bias > 0 and f.of_layout.has_temporal[b.group] and b.spec_block != b.destination_block
        for b in f.block_moves
    ),
)
_add(
    "temporal-onto-itself",
    "a temporal state that is already where it belongs",
    lambda f: any(f.of_layout.has_temporal[b.group] and b.spec_block == b.destination_block for b in f.block_moves),
)
_add(
    "aliased-columns",
    "a move between two columns that hold one block",
    lambda f: any(b.source_block == b.destination_block and b.move.source != b.move.destination for b in f.block_moves),
    reachable=False,
)
_add(
    "null-source",
    "the null block as a source",
    lambda f: any(0 in (b.source_block, b.spec_block) for b in f.block_moves),
    reachable=False,
)
_add("shared-source", "a source block of two requests", _shares_source)
_add(
    "block-under-two-columns",
    "a table row that names one block twice",
    lambda f: any(len(row) - row.count(0) > len(set(row) - {0}) for table in f.case.contents.tables for row in table),
)
_add(
    "null-columns",
    "null cells in a table row",
    lambda f: any(0 in row for table in f.case.contents.tables for row in table),
)
_add("stale-id-of-live-block", "a destination block that another row still names", _has_stale_id)
_add("tables-differ", "groups with different blocks in the columns of a move", _tables_differ)

# Memory.
_add_of_layout("layout-sd", "SD windows", lambda f: f.layout.conv_layout == "SD" and any(f.of_layout.windows))
_add_of_layout("layout-ds", "DS windows", lambda f: f.layout.conv_layout == "DS" and any(f.of_layout.windows))
_add_of_layout("several-groups", "more than one group", lambda f: len(f.layout.groups) > 1)
_add_of_layout(
    "state-counts-differ",
    "groups with different numbers of states",
    lambda f: len(set(map(len, f.of_layout.by_group))) > 1,
)
_add_of_layout(
    "states-per-layer-differ",
    "layers with different numbers of states",
    lambda f: len({len(layer.states) for group in f.layout.groups for layer in group.layers}) > 1,
)
_add_of_layout(
    "two-windows-in-layer",
    "a layer with two conv states",
    lambda f: any(
        sum(isinstance(state, ConvState) for state in layer.states) > 1
        for group in f.layout.groups
        for layer in group.layers
    ),
    reachable=False,
)
_add_of_layout(
    "padded-page", "a page larger than its states", lambda f: any(used < size for used, size in f.of_layout.pages)
)
_add_of_layout("tight-page", "a page without padding", lambda f: any(used == size for used, size in f.of_layout.pages))
_add_of_layout(
    "groups-share-pages",
    "groups that alias one buffer",
    lambda f: (
        len(f.layout.groups) > 1
        and len({(g, s.buffer) for g, s in f.of_layout.states}) > len({s.buffer for _, s in f.of_layout.states})
    ),
)
_add_of_layout("layers-outermost", "layers of a group one after the other", lambda f: _layers(f, _one_after_the_other))
_add_of_layout("blocks-outermost", "layers of a group within every block", lambda f: _layers(f, is_within_block))
_add_of_layout(
    "buffer-per-layer",
    "layers of a group in buffers of their own",
    lambda f: _layers(f, lambda a, b: a.buffer != b.buffer),
)
_add_of_layout(
    "buffer-per-state",
    "states of a layer in buffers of their own",
    lambda f: any(
        len({state.buffer for state in layer.states}) > 1 for group in f.layout.groups for layer in group.layers
    ),
    reachable=False,
)
for _size in (1, 2, 4, 8):
    _add_of_layout(
        f"item-size-{_size}",
        f"elements of {_size} bytes",
        lambda f, size=_size: any(state.item_size == size for _, state in f.of_layout.states),  # type: ignore[misc]
        reachable=_size in (2, 4),
    )
_add(
    "odd-bytes",
    "a copy of a number of bytes that is no multiple of 8",
    lambda f: any(copy.run % 8 for copy in f.copies if copy.rows == 1),
    reachable=False,
)
_add_of_layout(
    "misaligned-base-8",
    "a state whose base is not 8-byte aligned",
    lambda f: any((f.layout.buffers[s.buffer].misalignment + s.offset) % 8 for _, s in f.of_layout.states),
    reachable=False,
)
_add_of_layout(
    "misaligned-stride-8",
    "a block stride that is no multiple of 8",
    lambda f: any(state.block_stride % 8 for _, state in f.of_layout.states),
    reachable=False,
)
_add(
    "source-destination-misalignment-differs",
    "a copy whose two addresses differ in their last three bits",
    lambda f: any(_address_distance(copy) % 8 for copy in f.copies if copy.rows == 1),
    reachable=False,
)
_add_of_layout(
    "ds-row-stride-padded",
    "DS rows with gaps between them",
    lambda f: any(
        isinstance(s, ConvState) and s.row_stride is not None and s.row_stride > s.window * s.item_size
        for _, s in f.of_layout.states
    ),
    reachable=False,
)
_add(
    "ds-row-misaligned-8",
    "a DS copy whose rows are not 8-byte aligned",
    lambda f: any(_ds_row_is_odd(c) for c in f.copies),
)
_add("ds-rows-over-1024", "a DS copy of more than 1024 rows", lambda f: any(copy.rows > 1024 for copy in f.copies))
_add(
    "copy-loop-boundary-below",
    "a copy that ends just before a loop step",
    lambda f: any(-9 < past < 0 for past in f.past_steps),
    reachable=False,  # real states come in multiples of 16 bytes and 64 rows
)
_add("copy-loop-boundary-at", "a copy of whole loop steps", lambda f: 0 in f.past_steps)
_add(
    "copy-loop-boundary-above",
    "a copy that ends just after a loop step",
    lambda f: any(0 < past < 9 for past in f.past_steps),
)
_add("offset-past-2-31", "a copy with an end past 2**31 bytes from its state's first", lambda f: _reaches(f, 1 << 31))
_add("offset-past-2-32", "a copy with an end past 2**32 bytes from its state's first", lambda f: _reaches(f, 1 << 32))
_add(
    "several-temporal-tiles",
    "a temporal copy that several programs share",
    lambda f: any(_is_temporal(copy) and copy.run > 8200 for copy in f.copies),
)
_add(
    "all-temporal-tiles",
    "a temporal copy that keeps all sixteen programs busy",
    lambda f: any(_is_temporal(copy) and copy.run > 15 * 8192 + 8 for copy in f.copies),
    reachable=False,
)
_add_of_layout("no-spec-columns", "a model without drafts", lambda f: f.layout.num_spec == 0)
_add_of_layout("block-size-1", "blocks of one token", lambda f: f.layout.block_size == 1, reachable=False)
_add_of_layout(
    "block-size-within-drafts",
    "blocks no larger than the drafts",
    lambda f: f.layout.block_size <= f.layout.num_spec,
    reachable=False,
)
_add_of_layout("wide-table", "block tables of 300 columns or more", lambda f: f.layout.table_columns >= 300)
_add_of_layout("tall-table", "block tables of 256 rows or more", lambda f: f.layout.table_rows >= 256)
