"""The initial contents of memory: payload in blocks, poison everywhere else, numbers of requests, stale ones in
range."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.case import Case, Layout, Postprocess, PostprocessRow, Precopy, PrecopyRow, TemporalState
from harness.engines.hypothesis import cases
from harness.memory import Image, initial_image, plan_memory, poison_bytes

CASES = cases(("reachable", "total"))


def image_of(case: Case, bits: int = 32) -> Image:
    return initial_image(case, plan_memory(case, bits))


def numbers(image: Image, start: int, count: int, kind: type = np.int32) -> list[int]:
    found = image.view(start, count * np.dtype(kind).itemsize).copy().view(kind).tolist()
    assert isinstance(found, list)
    return found


@given(st.integers(0, 2**41), st.integers(0, 5000))
def test_poison_patterns_are_complements(offset: int, size: int) -> None:
    one, other = poison_bytes("A", offset, size), poison_bytes("B", offset, size)
    assert len(one) == size
    assert (one ^ other == 255).all()


@given(st.integers(0, 2**41), st.integers(64, 3000), st.integers(1, 2000))
def test_poison_depends_on_the_position_alone(offset: int, size: int, inside: int) -> None:
    inside %= size
    assert np.array_equal(poison_bytes("A", offset, size)[inside:], poison_bytes("A", offset + inside, size - inside))


@pytest.mark.parametrize("shift", [1, 2, 4, 8, 16, 64, 256, 4096, 8192, 2**16, 2**20, 2**22, 2**31, 2**32, 3 * 2**31])
def test_poison_copied_onto_poison_shows(shift: int) -> None:
    here, there = poison_bytes("A", 777, 4096), poison_bytes("A", 777 + shift, 4096)
    assert (here != there).mean() > 0.9
    assert (here == there).mean() < 0.02


def test_poison_longer_than_its_period() -> None:
    size = 9_000_000
    whole = poison_bytes("A", 12345, size)
    assert len(whole) == size
    for at in (0, 4_194_000, 4_200_000, 8_999_000):
        assert np.array_equal(whole[at : at + 900], poison_bytes("A", 12345 + at, 900))


@pytest.mark.parametrize("conv_layout", ["SD", "DS"])
@pytest.mark.parametrize("poison", ["A", "B"])
def test_blocks_hold_payload_and_the_rest_poison(make_case: Callable[..., Case], conv_layout: str, poison: str) -> None:
    case = make_case(conv_layout=conv_layout, poison=poison)
    plan = plan_memory(case, 32)
    image = initial_image(case, plan)
    start = plan.base.buffers[0]
    page = set(range(32)) | set(range(32, 56))  # group 1's temporal state spans bytes 0..32 of a page
    if conv_layout == "DS":
        assert plan.base.states[0].extent == 30
    payload = {start + 64 * block + byte for block in range(5) for byte in page}
    objects = {(base, base + 48) for base in plan.base.tables}
    objects |= {(span.start, span.start + span.size) for spans in plan.arrays for span in spans.values()}
    same = 0
    for first, size in plan.covered:
        wanted = poison_bytes(poison, first, size)  # type: ignore[arg-type]
        found = image.view(first, size)
        for offset in range(first, first + size):
            if any(low <= offset < high for low, high in objects):
                continue
            if offset in payload:
                same += int(found[offset - first] == wanted[offset - first])
            else:
                assert found[offset - first] == wanted[offset - first], offset
    assert same < len(payload) // 20


def test_gaps_between_ds_rows_are_poison(make_case: Callable[..., Case], make_layout: Callable[..., Layout]) -> None:
    full = make_layout("DS")
    only_conv = full.groups[0].layers[0].__class__(states=full.groups[0].layers[0].states[:1])
    layout = make_layout("DS", groups=(full.groups[0].__class__(layers=(only_conv,)),))
    case = make_case(layout=layout, tables=(((1, 2),),), owners=(-1, 0, 0, 0, 0))
    plan = plan_memory(case, 32)
    image = initial_image(case, plan)
    start = plan.base.buffers[0]
    for block in range(5):
        for row in range(4):
            gap = start + 64 * block + 8 * row + 6
            assert np.array_equal(image.view(gap, 2), poison_bytes("A", gap, 2))


def test_patterns_change_nothing_but_poison(make_case: Callable[..., Case]) -> None:
    plan = plan_memory(make_case(), 32)
    one, other = (initial_image(make_case(poison=poison), plan) for poison in "AB")
    start = plan.base.buffers[0]
    assert np.array_equal(one.view(start, 56), other.view(start, 56))
    assert (one.view(start + 56, 8) ^ other.view(start + 56, 8) == 255).all()
    for table in plan.base.tables:
        assert np.array_equal(one.view(table, 48), other.view(table, 48))


def test_no_two_blocks_are_equal(make_case: Callable[..., Case]) -> None:
    case = make_case()
    plan = plan_memory(case, 32)
    image = initial_image(case, plan)
    blocks = [image.view(place.block(b), place.extent).tobytes() for place in plan.base.states[1:] for b in range(5)]
    assert len(set(blocks)) == len(blocks)


def test_payload_follows_its_seed(make_case: Callable[..., Case]) -> None:
    one, other = image_of(make_case(payload_seed=1)), image_of(make_case(payload_seed=2))
    start = plan_memory(make_case(), 32).base.buffers[0]
    assert not np.array_equal(one.view(start, 56), other.view(start, 56))
    assert np.array_equal(one.view(start + 56, 8), other.view(start + 56, 8))


def test_given_cells_and_stale_ones(make_case: Callable[..., Case]) -> None:
    case = make_case(tables=(((1, 2), (), (4,)), ((3, 4, 0, 1),)))
    plan = plan_memory(case, 32)
    image = initial_image(case, plan)
    first, second = (numbers(image, start, 12) for start in plan.base.tables)
    assert (first[:2], first[8], second[:4]) == ([1, 2], 4, [3, 4, 0, 1])
    assert all(1 <= cell < 5 for cell in [*first[2:8], *first[9:], *second[4:]])


@given(CASES)
def test_stale_cells_name_blocks_of_the_pool_but_never_the_null_block(case: Case) -> None:
    plan = plan_memory(case, 32)
    image = initial_image(case, plan)
    layout = case.layout
    for given_rows, start in zip(case.contents.tables, plan.base.tables, strict=True):
        cells = np.array(numbers(image, start, layout.table_rows * layout.table_columns))
        cells = cells.reshape(layout.table_rows, layout.table_columns)
        for row in range(layout.table_rows):
            given = given_rows[row] if row < len(given_rows) else ()
            assert cells[row, : len(given)].tolist() == list(given)
            stale = cells[row, len(given) :]
            assert stale.size == 0 or (stale.min() >= 1 and stale.max() < layout.num_blocks)


def test_arguments_by_slot_and_by_batch_row(make_case: Callable[..., Case]) -> None:
    post = (
        PostprocessRow(slot=2, scheduled=3, computed=6, draft=2, accepted=2, state_column=1),
        PostprocessRow(slot=-1, scheduled=0, computed=0, draft=0, accepted=0, state_column=0),
        PostprocessRow(slot=0, scheduled=1, computed=9, draft=0, accepted=1, state_column=2),
    )
    pre = (PrecopyRow(slot=0, source_column=-1, destination_column=3, bias=2),)
    case = make_case(Postprocess(runner="V2", rows=post), Precopy(runner="V1", rows=pre))
    for bits, kind in ((32, np.int32), (64, np.int64)):
        plan = plan_memory(case, bits)
        image = initial_image(case, plan)
        spans = plan.arrays[0]
        assert numbers(image, spans["mapping"].start, 3, kind) == [2, -1, 0]
        values = {name: numbers(image, span.start, 3) for name, span in spans.items() if name != "mapping"}
        assert [values["accepted"][slot] for slot in (2, 0)] == [2, 1]
        assert [values["state_column"][slot] for slot in (2, 0)] == [1, 2]
        assert [values["new_computed"][slot] for slot in (2, 0)] == [6 + 3 - 2 + 2 - 1, 9 + 1 + 1 - 1]
        # Slot 1 is in no batch row: its numbers are plausible, and would move something.
        assert 1 <= values["accepted"][1] <= 3
        assert 0 <= values["state_column"][1] <= 3
        assert values["new_computed"][1] >= 1
        columns = {name: numbers(image, span.start, 3) for name, span in plan.arrays[1].items()}
        assert (columns["source_column"][0], columns["destination_column"][0], columns["bias"][0]) == (-1, 3, 2)
        assert all(0 <= columns["bias"][slot] <= 2 for slot in (1, 2))


def test_an_empty_mapping_says_skip(make_case: Callable[..., Case]) -> None:
    case = make_case(Precopy(runner="V2", rows=()))
    plan = plan_memory(case, 64)
    assert numbers(initial_image(case, plan), plan.arrays[0]["mapping"].start, 1, np.int64) == [-1]


@given(CASES)
def test_stale_numbers_stay_small(case: Case) -> None:
    """Sums of them fit int32, and columns are inside a table row: reading them never kills a process."""
    plan = plan_memory(case, 32)
    image = initial_image(case, plan)
    for operation, spans in zip(case.program, plan.arrays, strict=True):
        known = {row.slot for row in operation.rows}
        for name, span in spans.items():
            if name == "mapping":
                continue
            stale = [n for slot, n in enumerate(numbers(image, span.start, span.length)) if slot not in known]
            assert all(0 <= n < 2**28 for n in stale), name
            if name.endswith("column"):
                assert all(n < case.layout.table_columns for n in stale), name


def test_the_same_case_gives_the_same_bytes_everywhere(make_case: Callable[..., Case]) -> None:
    """Frozen: repro files hold a seed of these bytes, so a change here would change the meaning of every old file."""
    rows = (PostprocessRow(slot=1, scheduled=3, computed=6, draft=2, accepted=2, state_column=1),)
    case = make_case(Postprocess(runner="V2", rows=rows), conv_layout="DS", payload_seed=123456789, poison="B")
    image = image_of(case, 64)
    digest = hashlib.sha256()
    plan = plan_memory(case, 64)
    for start, size in [(plan.base.buffers[0], 320), *((table, 48) for table in plan.base.tables)]:
        digest.update(image.view(start, size).tobytes())
    for span in plan.arrays[0].values():
        digest.update(image.view(span.start, span.size).tobytes())
    assert digest.hexdigest() == "75513adf6d875705de7a08bc5373c646ce5c18c09f4db9f5b2d6039b78d862c8"


def test_far_blocks_hold_payload(make_case: Callable[..., Case], make_plain_layout: Callable[..., Layout]) -> None:
    stride = 2**31 + 4096
    state = TemporalState(item_size=4, shape=(6,), buffer=0, offset=0, block_stride=stride)
    layout = make_plain_layout(state, num_blocks=5, num_spec=2, table_rows=3)
    case = make_case(layout=layout, tables=(((1, 4),),), owners=(-1, 0, 0, 0, 0))
    plan = plan_memory(case, 32)
    image = initial_image(case, plan)
    contents = [image.view(plan.base.states[0].block(block), 24).tobytes() for block in range(5)]
    assert len(set(contents)) == 5
    after = plan.base.states[0].block(4) + 24
    assert np.array_equal(image.view(after, 256), poison_bytes("A", after, 256))
    assert sum(len(data) for _, data in image.segments) < 2**20
