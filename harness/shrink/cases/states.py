"""Passes over states and their memory: few elements, tight pages, separate buffers."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from harness.case import Case, ConvState, State, TemporalState, state_extent
from harness.case.layout import ItemSize
from harness.generators.reachability import PAGE_ALIGNMENT
from harness.shrink.cases import edits
from harness.shrink.cases.edits import Where, replace
from harness.shrink.proposals import Proposal, toward


def tight_layout(case: Case) -> Iterator[Proposal[Case]]:
    """Every state in its own buffer without gaps; then with its gap; then one state after the other."""
    yield lambda: edits.repack(_tight_rows(case), lambda where, state: 0)
    yield lambda: _tight_rows(case)
    yield lambda: edits.repack(case, edits.natural_gap)
    for where, state in case.layout.states():
        if edits.natural_gap(where, state):
            for gap in _gaps(state):
                yield lambda only=where, gap=gap: edits.repack(  # type: ignore[misc]
                    case, lambda w, s: gap if w == only else edits.natural_gap(w, s)
                )


def _gaps(state: State) -> Iterator[int]:
    """Gaps between two blocks, simplest first: none, one element, strides of a round number of gigabytes, half of
    what there is, and one element less."""
    yield from (0, state.item_size)
    extent = state_extent(state)
    for stride in (1 << 29, 1 << 30, 1 << 31, 1 << 32):
        if extent < stride < state.block_stride:
            yield stride - extent
    elements = (state.block_stride - extent) // state.item_size
    for fewer in (elements // 2, elements - 1):
        if fewer > 1:
            yield fewer * state.item_size


def _tight_rows(case: Case) -> Case:
    """DS rows without gaps between them."""

    def tight(_: Where, state: State) -> State:
        if isinstance(state, ConvState) and state.row_stride is not None:
            return replace(state, row_stride=state.window * state.item_size)
        return state

    return edits.map_states(case, tight)


def smaller_pages(case: Case) -> Iterator[Proposal[Case]]:
    """With shared buffers kept shared: all states of one byte, of one element, one number of one state, tight pages."""
    states = [state for _, state in case.layout.states()]
    if len({state.buffer for state in states}) == len(states):
        return
    yield lambda: edits.pack_pages(case, lambda state: _plain(case, state))
    # Not the smallest case that may fail, but the same for any states: two programs that shift one block.
    yield lambda: edits.pack_pages(case, lambda state: _shiftable(case, state))
    yield lambda: edits.pack_pages(_tight_rows(case), lambda state: _one_element(case, state))
    yield lambda: edits.pack_pages(_tight_rows(case), lambda state: state)
    for state in states:
        for small in _smaller_state(case, state):
            yield lambda old=state, small=small: edits.pack_pages(  # type: ignore[misc]
                _tight_rows(case), lambda s: small if s == old else s
            )


def _least(case: Case) -> tuple[ItemSize, int]:
    """The smallest size of an element in the case's domain, and the number of elements of the smallest state."""
    return (1, 1) if case.domain == "total" else (2, PAGE_ALIGNMENT // 2)


def _plain(case: Case, state: State) -> State:
    """The simplest state that can replace any other: one byte, or eight in the reachable domain."""
    item, count = _least(case)
    return TemporalState(
        item_size=item, shape=(count,), buffer=state.buffer, offset=state.offset, block_stride=state.block_stride
    )


def _shiftable(case: Case, state: State, times: int = 1) -> ConvState:
    """The simplest state in which a shift by one token reads and writes a byte; its tokens are `times` as long."""
    item, dim = _least(case)
    window = max(3, _least_window(case))
    return ConvState(
        item_size=item,
        window=window,
        dim=times * dim,
        buffer=state.buffer,
        offset=state.offset,
        block_stride=state.block_stride,
        row_stride=None if case.layout.conv_layout == "SD" else window * item,
    )


def _shared(case: Case, state: State) -> Iterator[ConvState]:
    """The simplest window that two warps share: two tokens, each 17 times the shortest, are more than a warp's 32
    lanes, each of which moves a word. Nothing for a state that is simpler."""
    if isinstance(state, ConvState):
        shared = _shiftable(case, state, times=17)
        size, least = ((one.item_size, one.window, one.dim) for one in (state, shared))
        if size > least:
            yield shared


def _least_window(case: Case) -> int:
    """The smallest number of tokens of a window; in a real model it has room for all drafts."""
    return 1 if case.domain == "total" else 1 + case.layout.num_spec


def _one_element(case: Case, state: State) -> State:
    item, count = _least(case)
    if isinstance(state, TemporalState):
        return replace(state, item_size=item, shape=(count,))
    return _conv(state, item_size=item, window=_least_window(case), dim=count)


def smaller_states(case: Case) -> Iterator[Proposal[Case]]:
    """Few elements: the whole state at once, then one number at a time; blocks keep the gaps between them.

    First comes the simplest state in eight bytes instead of any state, for cases where the state does not matter.
    """
    for where, state in case.layout.states():
        small = _plain(case, state)
        if state != small:
            plain = edits.map_states(case, lambda w, s, only=where: _plain(case, s) if w == only else s)  # type: ignore[misc]
            room = -state_extent(small) % PAGE_ALIGNMENT
            yield lambda plain=plain, only=where, room=room: edits.repack(  # type: ignore[misc]
                plain, lambda w, s: room if w == only else edits.natural_gap(w, s)
            )
            yield lambda plain=plain: edits.repack(plain, edits.natural_gap)  # type: ignore[misc]
        # Again not the smallest case that may fail, but the same one.
        for small in (*_shared(case, state), *_smaller_state(case, state)):
            yield lambda only=where, small=small: edits.repack(  # type: ignore[misc]
                edits.map_states(case, lambda w, s: small if w == only else s),
                lambda w, s: edits.natural_gap(w, case.layout.groups[w[0]].layers[w[1]].states[w[2]]),
            )


def _smaller_state(case: Case, state: State) -> Iterator[State]:
    least, _ = _least(case)
    sizes = [size for size in (1, 2, 4) if least <= size < state.item_size]
    unit = 1 if case.domain == "total" else max(1, PAGE_ALIGNMENT // state.item_size)
    if isinstance(state, TemporalState):
        count = prod(state.shape)
        for units in toward(-(-count // unit), 1):
            yield replace(state, shape=(units * unit,))
        if len(state.shape) > 1:
            yield replace(state, shape=(count,))
        for size in sizes:
            yield replace(state, item_size=size)
        return
    for window in toward(state.window, _least_window(case)):
        yield _conv(state, window=window)
    for units in toward(-(-state.dim // unit), 1):
        yield _conv(state, dim=units * unit)
    for size in sizes:
        yield _conv(state, item_size=size)


def _conv(state: ConvState, **changes: int) -> ConvState:
    """A conv state with other numbers; the gap between DS rows stays."""
    smaller = replace(state, **changes)
    if state.row_stride is None:
        return smaller
    gap = state.row_stride - state.window * state.item_size
    item = smaller.item_size
    return replace(smaller, row_stride=smaller.window * item + -(-gap // item) * item)
