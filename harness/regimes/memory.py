"""Regimes of memory: layouts, pages and strides, and how copies lie in them."""

from __future__ import annotations

from collections.abc import Callable

from harness.case import ConvState, State
from harness.regimes.copies import is_temporal, origin
from harness.regimes.facts import Copy, Facts, is_within_block
from harness.regimes.regime import Predicate, Regime, of_layout


def _reaches(f: Facts, distance: int) -> bool:
    """Whether a copy has an end so many bytes from its state's first block. Only few layouts are large enough."""
    return f.of_layout.farthest >= distance and any(
        max(origin(copy), copy.block_move.destination_block) * copy.state.block_stride >= distance for copy in f.copies
    )


def _layers(f: Facts, relation: Callable[[State, State], bool]) -> bool:
    """Whether the relation holds between the first two layers of a group."""
    return any(
        len(group.layers) > 1 and relation(group.layers[0].states[0], group.layers[1].states[0])
        for group in f.layout.groups
    )


def _one_after_the_other(one: State, other: State) -> bool:
    return one.buffer == other.buffer and not is_within_block(one, other)


def _address_distance(copy: Copy) -> int:
    """Bytes from where a copy writes to where it reads."""
    return (origin(copy) - copy.block_move.destination_block) * copy.state.block_stride + copy.shift


def _ds_row_is_odd(copy: Copy) -> bool:
    return copy.rows > 1 and isinstance(copy.state, ConvState) and (copy.state.row_stride or 0) % 8 != 0


def _has_elements_of(size: int) -> Predicate:
    return lambda f: any(state.item_size == size for _, state in f.of_layout.states)


REGIMES: tuple[Regime, ...] = (
    of_layout("layout-sd", "SD windows", lambda f: f.layout.conv_layout == "SD" and any(f.of_layout.windows)),
    of_layout("layout-ds", "DS windows", lambda f: f.layout.conv_layout == "DS" and any(f.of_layout.windows)),
    of_layout("several-groups", "more than one group", lambda f: len(f.layout.groups) > 1),
    of_layout(
        "state-counts-differ",
        "groups with different numbers of states",
        lambda f: len(set(map(len, f.of_layout.by_group))) > 1,
    ),
    of_layout(
        "states-per-layer-differ",
        "layers with different numbers of states",
        lambda f: len({len(layer.states) for group in f.layout.groups for layer in group.layers}) > 1,
    ),
    of_layout(
        "two-windows-in-layer",
        "a layer with two conv states",
        lambda f: any(
            sum(isinstance(state, ConvState) for state in layer.states) > 1
            for group in f.layout.groups
            for layer in group.layers
        ),
        reachable=False,
    ),
    of_layout(
        "padded-page", "a page larger than its states", lambda f: any(used < size for used, size in f.of_layout.pages)
    ),
    of_layout("tight-page", "a page without padding", lambda f: any(used == size for used, size in f.of_layout.pages)),
    of_layout(
        "groups-share-pages",
        "groups that alias one buffer",
        lambda f: (
            len(f.layout.groups) > 1
            and len({(g, s.buffer) for g, s in f.of_layout.states}) > len({s.buffer for _, s in f.of_layout.states})
        ),
    ),
    of_layout("layers-outermost", "layers of a group one after the other", lambda f: _layers(f, _one_after_the_other)),
    of_layout("blocks-outermost", "layers of a group within every block", lambda f: _layers(f, is_within_block)),
    of_layout(
        "buffer-per-layer",
        "layers of a group in separate buffers",
        lambda f: _layers(f, lambda a, b: a.buffer != b.buffer),
    ),
    of_layout(
        "buffer-per-state",
        "states of a layer in separate buffers",
        lambda f: any(
            len({state.buffer for state in layer.states}) > 1 for group in f.layout.groups for layer in group.layers
        ),
        reachable=False,
    ),
    *(
        of_layout(
            f"item-size-{size}",
            f"elements of {size} byte{'s' * (size > 1)}",
            _has_elements_of(size),
            reachable=size in (2, 4),
        )
        for size in (1, 2, 4, 8)
    ),
    Regime(
        "odd-bytes",
        "a copy of a number of bytes that is not a multiple of 8",
        lambda f: any(copy.run % 8 for copy in f.copies if copy.rows == 1),
        reachable=False,
    ),
    of_layout(
        "misaligned-base-8",
        "a state whose base is not 8-byte aligned",
        lambda f: any((f.layout.buffers[s.buffer].misalignment + s.offset) % 8 for _, s in f.of_layout.states),
        reachable=False,
    ),
    of_layout(
        "misaligned-stride-8",
        "a block stride that is not a multiple of 8",
        lambda f: any(state.block_stride % 8 for _, state in f.of_layout.states),
        reachable=False,
    ),
    Regime(
        "source-destination-misalignment-differs",
        "a copy whose two addresses differ in their last three bits",
        lambda f: any(_address_distance(copy) % 8 for copy in f.copies if copy.rows == 1),
        reachable=False,
    ),
    of_layout(
        "ds-row-stride-padded",
        "DS rows with gaps between them",
        lambda f: any(
            isinstance(s, ConvState) and s.row_stride is not None and s.row_stride > s.window * s.item_size
            for _, s in f.of_layout.states
        ),
        reachable=False,
    ),
    Regime(
        "ds-row-misaligned-8",
        "a DS copy whose rows are not 8-byte aligned",
        lambda f: any(_ds_row_is_odd(c) for c in f.copies),
    ),
    Regime(
        "ds-rows-over-1024", "a DS copy of more than 1024 rows", lambda f: any(copy.rows > 1024 for copy in f.copies)
    ),
    Regime(
        "copy-loop-boundary-below",
        "a copy that ends just before a loop step",
        lambda f: any(-9 < past < 0 for past in f.past_steps),
        reachable=False,  # real states come in multiples of 16 bytes and 64 rows
    ),
    Regime("copy-loop-boundary-at", "a copy of whole loop steps", lambda f: 0 in f.past_steps),
    Regime(
        "copy-loop-boundary-above",
        "a copy that ends just after a loop step",
        lambda f: any(0 < past < 9 for past in f.past_steps),
    ),
    Regime(
        "offset-past-2-31", "a copy with an end past 2**31 bytes from its state's first", lambda f: _reaches(f, 1 << 31)
    ),
    Regime(
        "offset-past-2-32", "a copy with an end past 2**32 bytes from its state's first", lambda f: _reaches(f, 1 << 32)
    ),
    Regime(
        "several-temporal-tiles",
        "a temporal copy that several programs share",
        lambda f: any(is_temporal(copy) and copy.run > 8200 for copy in f.copies),
    ),
    Regime(
        "all-temporal-tiles",
        "a temporal copy that keeps all sixteen programs busy",
        lambda f: any(is_temporal(copy) and copy.run > 15 * 8192 + 8 for copy in f.copies),
    ),
    of_layout("no-spec-columns", "a model without drafts", lambda f: f.layout.num_spec == 0),
    of_layout("block-size-1", "blocks of one token", lambda f: f.layout.block_size == 1, reachable=False),
    of_layout(
        "block-size-within-drafts",
        "blocks no larger than the drafts",
        lambda f: f.layout.block_size <= f.layout.num_spec,
        reachable=False,
    ),
    of_layout("wide-table", "block tables of 300 columns or more", lambda f: f.layout.table_columns >= 300),
    of_layout("tall-table", "block tables of 256 rows or more", lambda f: f.layout.table_rows >= 256),
)
