"""Every drawn case is valid: checked byte by byte, by a second, plain statement of what the kernels read and write."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from harness.case import (
    SKIP_ROW,
    Case,
    ConvState,
    Layout,
    Postprocess,
    State,
    TemporalState,
    decode_case,
    encode_case,
    state_extent,
)
from harness.generators.cases import draw_case, draw_layout
from harness.generators.draw import RandomDraw

CASES = 600
BOTH = ("postprocess", "precopy")
Interval = tuple[int, int, int]
"""Buffer, first byte, one past the last byte."""


def cases(domain: str, scale: str, count: int = CASES, seed: int = 11) -> Iterator[Case]:
    for index in range(count):
        if index % 4 == 0:
            plan = draw_layout(RandomDraw(f"{seed}/layout/{index // 4}"), domain, scale)
        yield draw_case(RandomDraw(f"{seed}/case/{index}"), plan, domain, BOTH, scale)


def moves(operation, block_size: int) -> Iterator[tuple[int, int, int, int]]:
    """Slot, source column, destination column and bias of each row that moves."""
    for row in operation.rows:
        if row.slot == SKIP_ROW:
            continue
        if isinstance(operation, Postprocess):
            running = row.computed + row.scheduled - row.draft
            aligned = (running + row.accepted - 1) // block_size * block_size
            source, destination = row.state_column, aligned // block_size - 1
            bias = aligned - running
            if aligned >= running and (source != destination or bias > 0):
                yield row.slot, source, destination, bias
        elif row.source_column >= 0 and row.source_column != row.destination_column:
            yield row.slot, row.source_column, row.destination_column, row.bias


def spans(state: State, block: int, first: int, tokens: int) -> list[Interval]:
    """Bytes of `tokens` tokens from token `first` on; of the whole block for a temporal state."""
    start = state.offset + block * state.block_stride
    if isinstance(state, TemporalState):
        return [(state.buffer, start, start + state.natural_bytes)]
    item = state.item_size
    if tokens <= 0:
        return []
    if state.row_stride is None:
        token = state.dim * item
        return [(state.buffer, start + first * token, start + (first + tokens) * token)]
    rows = (start + row * state.row_stride for row in range(state.dim))
    return [(state.buffer, row + first * item, row + (first + tokens) * item) for row in rows]


def launch_accesses(case: Case, operation) -> tuple[dict, dict]:
    """Intervals read and written by each program (slot, state) of a launch."""
    layout, tables = case.layout, case.contents.tables
    reads: dict[tuple[int, int], list[Interval]] = {}
    writes: dict[tuple[int, int], list[Interval]] = {}
    for slot, source, destination, bias in moves(operation, layout.block_size):
        assert 0 <= source < layout.table_columns
        assert 0 <= source + bias < layout.table_columns
        assert 0 <= destination < layout.table_columns
        for index, ((group, _, _), state) in enumerate(layout.states()):
            row = tables[group][slot]
            target = row[destination]
            assert case.contents.owners[target] == group
            if isinstance(state, ConvState):
                origin, kept = row[source], state.window - bias
                reads[slot, index] = spans(state, origin, bias, kept)
                writes[slot, index] = spans(state, target, 0, kept)
            else:
                origin = row[source + bias]
                reads[slot, index] = spans(state, origin, 0, 0)
                writes[slot, index] = spans(state, target, 0, 0)
            assert origin == 0 or case.contents.owners[origin] == group
    return reads, writes


def assert_no_conflict(reads: dict, writes: dict) -> None:
    events = [(span, program, False) for program, found in reads.items() for span in found]
    events += [(span, program, True) for program, found in writes.items() for span in found]
    events.sort(key=lambda event: event[0])
    open_spans: list = []
    for span, program, is_write in events:
        buffer, start, _ = span
        open_spans = [item for item in open_spans if item[0][0] == buffer and item[0][2] > start]
        for other, other_program, other_is_write in open_spans:
            if program != other_program:
                assert is_write == other_is_write == False, (span, program, other, other_program)  # noqa: E712
        open_spans.append((span, program, is_write))


def assert_live_blocks_apart(layout: Layout, owners: tuple[int, ...]) -> None:
    """No two states share bytes of blocks that their groups own."""
    live = []
    for (group, layer, index), state in layout.states():
        for block, owner in enumerate(owners):
            if owner == group:
                start = state.offset + block * state.block_stride
                live.append((state.buffer, start, start + state_extent(state), (group, layer, index, block)))
    live.sort()
    for before, after in itertools.pairwise(live):
        assert before[0] != after[0] or before[2] <= after[1], (before, after)


@pytest.mark.parametrize("scale", ["small", "full"])
@pytest.mark.parametrize("domain", ["reachable", "total"])
def test_no_program_meets_another(domain: str, scale: str) -> None:
    moved = launches = 0
    for case in cases(domain, scale):
        assert_live_blocks_apart(case.layout, case.contents.owners)
        for operation in case.program:
            reads, writes = launch_accesses(case, operation)
            assert_no_conflict(reads, writes)
            launches += 1
            moved += bool(writes)
    # A launch that moves nothing tests only an early exit: such launches must be the exception.
    assert moved / launches > 0.6


def test_checker_sees_conflicts() -> None:
    read = {(0, 0): [(0, 0, 8)]}
    with pytest.raises(AssertionError):
        assert_no_conflict(read, {(1, 0): [(0, 7, 9)]})
    assert_no_conflict(read, {(1, 0): [(0, 8, 9)], (0, 0): [(0, 4, 6)]})


@pytest.mark.parametrize("domain", ["reachable", "total"])
def test_cases_survive_json(domain: str) -> None:
    for case in cases(domain, "full", 60):
        assert decode_case(encode_case(case)) == case


def held(case: Case) -> int:
    """Bytes that the blocks of a case hold: the distance between spread blocks costs nothing."""
    layout = case.layout
    spans = {(state.buffer, state.offset, state_extent(state)) for _, state in layout.states()}
    return sum(extent for _, _, extent in spans) * layout.num_blocks


def test_small_is_small() -> None:
    for domain in ("reachable", "total"):
        for case in cases(domain, "small", 400):
            assert case.layout.num_states <= 4
            assert all(len(operation.rows) <= 3 for operation in case.program)
            assert held(case) < 2**20


@pytest.mark.parametrize("domain", ["reachable", "total"])
def test_each_property_of_real_models_is_drawn_at_its_size(domain: str) -> None:
    """Sixteen tiles of a temporal state, and the most requests, groups, layers and drafts of published models."""
    plans = [draw_layout(RandomDraw(f"13/layout/{index}"), domain, "full") for index in range(CASES)]
    layouts = [plan.layout for plan in plans]
    tiled = sum(
        any(isinstance(state, TemporalState) and state.natural_bytes > 15 * 8192 for _, state in layout.states())
        for layout in layouts
    )
    assert tiled >= 0.05 * CASES
    assert max(plan.requests for plan in plans) > 512
    assert max(len(layout.groups) for layout in layouts) == 30
    assert max(len(group.layers) for layout in layouts for group in layout.groups) == 72
    assert {0, 1, 2, 3, 4, 5, 7, 8, 15, 31} == {layout.num_spec for layout in layouts}


@pytest.mark.parametrize("domain", ["reachable", "total"])
def test_full_mostly_stays_below_a_quarter_mebibyte(domain: str) -> None:
    sizes = sorted(held(case) for case in cases(domain, "full"))
    assert sizes[len(sizes) * 4 // 5] <= 2**18
