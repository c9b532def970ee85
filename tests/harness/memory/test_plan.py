"""Plans: objects never overlap, guards are on both sides of each, and covered bytes are what a case really holds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.case import (
    Buffer,
    Case,
    ConvState,
    Group,
    InvalidCase,
    Layer,
    Layout,
    Postprocess,
    PostprocessRow,
    Precopy,
    PrecopyRow,
    TemporalState,
)
from harness.engines.hypothesis import cases
from harness.memory import MemoryPlan, plan_layout, plan_memory
from harness.memory.plan import COVERED_LIMIT, DENSE_LIMIT, GUARD, OUTER_GUARD

CASES = cases(("reachable", "total"))


def objects(plan: MemoryPlan) -> list[tuple[int, int, str]]:
    """First byte, one past the last byte, and name of everything that is not a guard."""
    base = plan.base
    found = [
        (start, start + buffer.size, f"buffer {i}")
        for i, (start, buffer) in enumerate(zip(base.buffers, base.layout.buffers, strict=True))
    ]
    cells = base.layout.table_rows * base.layout.table_columns
    found += [(start, start + 4 * cells, f"table {g}") for g, start in enumerate(base.tables)]
    found.append((base.private[0], sum(base.private), "private"))
    found += [
        (span.start, span.start + span.item * span.length, f"{span.name} {span.operation}")
        for spans in plan.arrays
        for span in spans.values()
    ]
    return sorted(found)


@given(CASES, st.sampled_from((32, 64)))
def test_guards_stand_on_both_sides_of_every_object(case: Case, bits: int) -> None:
    plan = plan_memory(case, bits)
    found = objects(plan)
    assert found[0][0] >= OUTER_GUARD >= 8192
    assert found[-1][1] + OUTER_GUARD <= plan.size
    for (_, end, name), (start, _, other) in pairwise(found):
        assert start - end >= GUARD >= 256, (name, other)


@given(CASES, st.sampled_from((32, 64)))
def test_every_guard_byte_is_covered(case: Case, bits: int) -> None:
    plan = plan_memory(case, bits)

    def covered(first: int, last: int) -> bool:
        return any(start <= first and last <= start + size for start, size in plan.covered)

    private = plan.base.private
    for first, last, name in objects(plan):
        if name != "private":
            assert covered(first - GUARD, first), name
            assert covered(last, last + GUARD), name
    for place in plan.base.states:
        for block in range(case.layout.num_blocks):
            assert covered(place.block(block), place.block(block) + place.extent), (place, block)
    assert covered(0, OUTER_GUARD)
    assert covered(private[0] - GUARD, private[0])
    assert covered(sum(private), sum(private) + GUARD)
    assert covered(plan.size - OUTER_GUARD, plan.size)


@given(CASES)
def test_covered_spans_are_disjoint_and_ascending(case: Case) -> None:
    plan = plan_memory(case, 32)
    spans = [(start, start + size) for start, size in plan.covered]
    assert all(start < end for start, end in spans)
    assert all(end < start for (_, end), (start, _) in pairwise(spans))
    assert spans[-1][1] == plan.size


@given(CASES)
def test_bases_are_aligned_as_the_layout_says(case: Case) -> None:
    plan = plan_memory(case, 32)
    base = plan.base
    for start, buffer in zip(base.buffers, base.layout.buffers, strict=True):
        assert start % 256 == buffer.misalignment
    assert all(start % 256 == 0 for start in base.tables)
    assert all(span.start % 256 == 0 for spans in plan.arrays for span in spans.values())


def test_states_lie_where_the_layout_puts_them(make_layout: Callable[..., Layout]) -> None:
    base = plan_layout(make_layout())
    (buffer,) = base.buffers
    assert buffer == OUTER_GUARD
    assert [(place.group, place.layer, place.index, place.start) for place in base.states] == [
        (0, 0, 0, buffer),
        (0, 0, 1, buffer + 32),
        (1, 0, 0, buffer),
    ]
    assert [place.extent for place in base.states] == [24, 24, 32]
    assert base.states[1].block(3) == buffer + 3 * 64 + 32
    first = buffer + 768 + OUTER_GUARD  # 320 bytes, a guard, to the next 256, the wide guard; then 48 bytes more
    assert base.tables == (first, first + 512)
    assert base.table_cell(1, 2, 3) == first + 512 + (2 * 4 + 3) * 4
    assert base.private[0] == first + 512 + 512


@pytest.mark.parametrize("bits", [32, 64])
def test_arguments_of_every_form(make_case: Callable[..., Case], bits: int) -> None:
    post = PostprocessRow(slot=0, scheduled=1, computed=1, draft=0, accepted=1, state_column=0)
    pre = PrecopyRow(slot=0, source_column=0, destination_column=1, bias=0)
    case = make_case(
        Postprocess(runner="V1", rows=(post,)),
        Postprocess(runner="V2", rows=(post,)),
        Precopy(runner="V1", rows=(pre,)),
        Precopy(runner="V2", rows=(pre,)),
        Precopy(runner="V2", rows=()),
    )
    plan = plan_memory(case, bits)
    assert [{name: (span.item, span.length) for name, span in spans.items()} for spans in plan.arrays] == [
        dict.fromkeys(("accepted", "state_column", "scheduled", "computed", "draft"), (4, 3)),
        dict.fromkeys(("accepted", "state_column", "new_computed"), (4, 3)) | {"mapping": (bits // 8, 1)},
        dict.fromkeys(("destination_column", "source_column", "bias"), (4, 3)),
        dict.fromkeys(("destination_column", "source_column", "bias"), (4, 3)) | {"mapping": (bits // 8, 1)},
        dict.fromkeys(("destination_column", "source_column", "bias"), (4, 3)) | {"mapping": (bits // 8, 1)},
    ]
    assert [span.operation for spans in plan.arrays for span in spans.values()] == [0] * 5 + [1] * 4 + [2] * 3 + [
        3
    ] * 4 + [4] * 4


def test_cases_of_one_layout_share_its_plan(make_case: Callable[..., Case], make_layout: Callable[..., Layout]) -> None:
    one = plan_memory(make_case(payload_seed=1), 32)
    other = plan_memory(make_case(payload_seed=2, layout=make_layout()), 64)
    assert one.base is other.base


Huge = Callable[..., Layout]


@pytest.fixture
def huge_layout(make_plain_layout: Callable[..., Layout]) -> Huge:
    def make(stride: int, blocks: int, extent: int = 8, **changes: Any) -> Layout:
        state = TemporalState(item_size=4, shape=(extent // 4,), buffer=0, offset=0, block_stride=stride)
        conv = ConvState(item_size=2, window=2, dim=3, buffer=0, offset=extent, block_stride=stride)
        return make_plain_layout(state, conv, num_blocks=blocks, table_rows=1, table_columns=2, **changes)

    return make


def test_huge_strides_cost_what_the_blocks_hold(huge_layout: Huge) -> None:
    stride = 2**31 + 4096
    plan = plan_layout(huge_layout(stride, 5))
    start = plan.buffers[0]
    held = sum(size for _, size in plan.covered)
    assert held < 64 * 1024
    for block in range(5):
        first, last = start + block * stride, start + block * stride + 20
        assert any(at <= first - GUARD and last + GUARD <= at + size for at, size in plan.covered), block
    end = start + 5 * stride
    assert any(at <= end < end + GUARD <= at + size for at, size in plan.covered), "the guard behind the buffer"


@pytest.mark.parametrize("over", [0, 8])
def test_buffers_up_to_the_limit_are_covered_whole(over: int, huge_layout: Huge) -> None:
    plan = plan_layout(huge_layout((DENSE_LIMIT + over) // 2, 2))
    assert plan.layout.buffers[0].size == DENSE_LIMIT + over
    held = sum(size for _, size in plan.covered)
    assert held < 64 * 1024 if over else held > DENSE_LIMIT


@pytest.mark.parametrize(
    ("stride", "blocks", "changes"),
    [
        (2**20, 2**12, {"extent": 2**19}),  # sparse, 2 GiB of blocks
        (2**24, 2**16, {"extent": 15364}),  # sparse, and only with the guards too much
        (64, 2, {"buffers": (Buffer(size=DENSE_LIMIT),) * 200}),  # each small, together too much
    ],
    ids=["states", "guards", "buffers"],
)
def test_too_much_memory_is_refused(stride: int, blocks: int, changes: dict[str, Any], huge_layout: Huge) -> None:
    layout = huge_layout(stride, blocks, **changes)
    with pytest.raises(InvalidCase, match=str(COVERED_LIMIT)):
        plan_layout(layout)


def test_tables_count_as_memory(make_layout: Callable[..., Layout]) -> None:
    with pytest.raises(InvalidCase, match=str(COVERED_LIMIT)):
        plan_layout(make_layout(table_rows=2**15, table_columns=2**13))


def test_memory_of_the_target_counts_too(make_layout: Callable[..., Layout]) -> None:
    layout = make_layout(table_rows=2**20, table_columns=1, num_spec=1024)
    with pytest.raises(InvalidCase, match=str(COVERED_LIMIT)):
        plan_layout(layout)


def test_arguments_count_as_memory(make_case: Callable[..., Case], make_layout: Callable[..., Layout]) -> None:
    empty = Postprocess(runner="V1", rows=())
    case = make_case(*[empty] * 64, layout=make_layout(table_rows=2**20, table_columns=1, num_spec=0), tables=((), ()))
    with pytest.raises(InvalidCase, match=str(COVERED_LIMIT)):
        plan_memory(case, 64)


def test_many_states_of_many_blocks_are_refused(make_layout: Callable[..., Layout]) -> None:
    """Each block of each state is a separate object: a small file must not ask for billions."""
    states = tuple(TemporalState(item_size=1, shape=(1,), buffer=0, offset=i, block_stride=8) for i in range(8))
    layout = make_layout(
        num_blocks=2**20,
        buffers=(Buffer(size=DENSE_LIMIT),),
        groups=(Group(layers=(Layer(states=states),) * 128),) * 2,
        table_rows=1,
        table_columns=2,
    )
    with pytest.raises(InvalidCase, match="blocks"):
        plan_layout(layout)
