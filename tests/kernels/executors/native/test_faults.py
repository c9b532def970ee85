"""The accesses that a checking executor refuses, and its reports."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from harness.kernels.executors.base import AccessFault, AccessSpan
from harness.kernels.executors.native.runtime import FAULT_CAPACITY, merged


def line_of(function: Any, text: str) -> int:
    """The line of the sample kernels' file where `function` contains `text`."""
    lines, start = inspect.getsourcelines(function.fn)
    (number,) = [start + index for index, line in enumerate(lines) if text in line]
    return number


def taken_faults(bench: Any) -> tuple[AccessFault, ...]:
    faults = bench.executor.faults()
    bench.begin()
    return tuple(faults)


def test_a_load_one_element_past_a_span(bench: Any) -> None:
    source, out = bench.put([1, 2, 3], torch.int32), bench.put([9], torch.int32)
    bench.kernels.read_at[(1,)](source, 3, out, OTHER=None)
    assert out.item() == 0
    kernel = bench.kernels.read_at
    assert taken_faults(bench) == (
        AccessFault(
            violation="out-of-bounds",
            is_store=False,
            offset=bench.offset(source) + 12,
            width=4,
            kernel="read_at",
            file=inspect.getsourcefile(kernel.fn),
            source="read_at",
            line=line_of(kernel, "value = tl.load(source + offset)"),
            program=(0, 0, 0),
            lane=0,
        ),
    )


def test_a_refused_load_gives_other(bench: Any) -> None:
    source, out = bench.put([1, 2, 3], torch.int32), bench.put([9], torch.int32)
    bench.kernels.read_at[(1,)](source, -1, out, OTHER=-4)
    assert out.item() == -4
    (fault,) = taken_faults(bench)
    assert fault.offset == bench.offset(source) - 4
    bench.kernels.read_at[(1,)](source, 2, out, OTHER=-4)
    assert out.item() == 3


@pytest.mark.parametrize("offset", [-2, 1])
def test_stores_across_a_border_are_refused_lane_by_lane(bench: Any, offset: int) -> None:
    """The fault is in the device function that the kernel called."""
    target = bench.put([0] * 4, torch.int32)
    before = bench.snapshot()
    bench.kernels.write_at[(1,)](target, offset)
    outside = [lane for lane in range(4) if not 0 <= offset + lane < 4]
    want = [next((lane + 1 for lane in range(4) if offset + lane == i), 0) for i in range(4)]
    assert target.tolist() == want
    faults = taken_faults(bench)
    assert [fault.lane for fault in faults] == outside
    assert {(fault.kernel, fault.source, fault.is_store) for fault in faults} == {("write_at", "store_one", True)}
    assert {fault.line for fault in faults} == {line_of(bench.kernels.store_one, "tl.store")}
    target.zero_()
    assert (bench.snapshot() == before).all()


def test_an_eight_byte_access_at_a_four_byte_address_is_misaligned(bench: Any) -> None:
    source = bench.put(list(range(10)), torch.int32)
    target = bench.put([0] * 4, torch.int64)
    addresses = bench.put([source.data_ptr() + 4, target.data_ptr()], torch.int64)
    bench.kernels.copy_words[(1,)](addresses, 3, BLOCK=4)
    faults = taken_faults(bench)
    assert [(fault.violation, fault.is_store, fault.width, fault.lane) for fault in faults] == [
        ("misaligned", False, 8, lane) for lane in range(3)
    ]
    assert target.tolist() == [0] * 4


def test_out_of_bounds_comes_before_misaligned(bench: Any) -> None:
    source, target = bench.put([0] * 4, torch.int32), bench.put([0] * 4, torch.int64)
    addresses = bench.put([source.data_ptr() + 12, target.data_ptr()], torch.int64)
    bench.kernels.copy_words[(1,)](addresses, 1, BLOCK=4)
    (fault,) = taken_faults(bench)
    assert fault.violation == "out-of-bounds"


def test_refused_lanes_of_a_block_get_other_and_the_rest_continues(bench: Any) -> None:
    x, y = bench.put([1, 2], torch.int32), bench.put([0, 0, 0], torch.int32)
    out = bench.put([-1] * 2, torch.int32)
    bench.kernels.copy_unequal[(1,)](x, y, out, 3, BLOCK=4)
    assert out.tolist() == [1, 2]
    # x[2] gets 3, y[3] gets 0, x[3] is masked off and gets 3: both stores are out of bounds.
    assert [(fault.is_store, fault.lane) for fault in taken_faults(bench)] == [
        (False, 2),
        (False, 3),
        (True, 2),
        (True, 3),
    ]


def test_spans_that_touch_are_two_objects_and_those_that_overlap_are_one(bench: Any) -> None:
    data = bench.put(list(range(16)), torch.uint8)
    target = bench.put([0] * 4, torch.int64)
    addresses = bench.put([data.data_ptr(), target.data_ptr()], torch.int64)
    start = bench.offset(data)
    others = bench.spans[1:]

    bench.begin([*others, AccessSpan(start, 4, "a", "low"), AccessSpan(start + 4, 12, "b", "high")])
    bench.kernels.copy_words[(1,)](addresses, 2, BLOCK=4)
    assert [(fault.lane, fault.violation) for fault in taken_faults(bench)] == [(0, "out-of-bounds")]

    bench.begin([*others, AccessSpan(start, 5, "a", "low"), AccessSpan(start + 4, 12, "b", "high")])
    bench.kernels.copy_words[(1,)](addresses, 2, BLOCK=4)
    assert taken_faults(bench) == ()


def test_stores_into_what_kernels_may_only_read(bench: Any) -> None:
    """A whole block and lane by lane; loads continue, and so do stores next to it."""
    source, target = bench.put([1, 2, 3, 4], torch.int64), bench.put([0] * 4, torch.int64)
    one = bench.put([0] * 4, torch.int32)
    locked = [replace(span, writable=False) for span in bench.spans]
    addresses = bench.put([source.data_ptr(), target.data_ptr()], torch.int64)
    bench.begin([*locked, *bench.spans[3:]])
    bench.kernels.copy_words[(1,)](addresses, 4, BLOCK=4)
    bench.kernels.write_at[(1,)](one, 0)
    faults = taken_faults(bench)
    assert [(fault.violation, fault.is_store, fault.lane) for fault in faults] == [
        ("read-only", True, lane) for lane in (*range(4), *range(4))
    ]
    assert [fault.offset for fault in faults[:4]] == [bench.offset(target) + 8 * lane for lane in range(4)]
    assert target.tolist() == [0] * 4
    assert one.tolist() == [0] * 4
    bench.kernels.copy_words[(1,)](addresses, 4, BLOCK=4)
    assert target.tolist() == [1, 2, 3, 4]


def test_wild_addresses_are_refused(bench: Any) -> None:
    target = bench.put([0] * 4, torch.int64)
    for address in (0, 8, (1 << 63) - 8, -(1 << 63), -8, bench.arena.address + bench.arena.size):
        addresses = bench.put([address, target.data_ptr()], torch.int64)
        bench.kernels.copy_words[(1,)](addresses, 1, BLOCK=4)
        (fault,) = taken_faults(bench)
        signed = address - bench.arena.address
        assert fault.offset in (signed, signed + (1 << 64))
        assert fault.violation == "out-of-bounds"


def test_the_span_cache_is_forgotten_between_cases(bench: Any) -> None:
    source, out = bench.put([1, 2, 3], torch.int32), bench.put([9], torch.int32)
    bench.kernels.read_at[(1,)](source, 1, out, OTHER=None)
    assert out.item() == 2
    bench.begin(bench.spans[1:])
    bench.kernels.read_at[(1,)](source, 1, out, OTHER=None)
    assert len(taken_faults(bench)) == 1


def test_no_spans_allow_nothing(bench: Any) -> None:
    out = bench.put([0] * 5, torch.int64)
    bench.begin([AccessSpan(0, 0, "none", "empty")])
    bench.kernels.scalar_types[(1,)](out, 1, 2, 3, False)
    assert len(taken_faults(bench)) == 3
    assert out.tolist() == [0] * 5


def test_faults_are_kept_up_to_a_limit_and_counted_beyond(bench: Any) -> None:
    target = bench.put([0] * 4, torch.int32)
    for _ in range(2):
        bench.kernels.write_at[(20,)](target, 100)
    assert bench.executor.fault_count == 160
    faults = taken_faults(bench)
    assert len(faults) == FAULT_CAPACITY
    assert [fault.program for fault in faults[::4]] == [(i, 0, 0) for i in range(FAULT_CAPACITY // 4)]
    assert bench.executor.fault_count == 0


def test_faults_of_several_launches_name_their_kernels(bench: Any) -> None:
    source, out = bench.put([1, 2, 3], torch.int32), bench.put([9], torch.int32)
    bench.kernels.read_at[(1,)](source, 3, out, OTHER=None)
    bench.kernels.write_at[(1, 2)](source, -1)
    faults = taken_faults(bench)
    assert [(fault.kernel, fault.program) for fault in faults] == [
        ("read_at", (0, 0, 0)),
        ("write_at", (0, 0, 0)),
        ("write_at", (0, 1, 0)),
    ]


def test_thousands_of_spans(make_bench: Callable[..., Any]) -> None:
    bench = make_bench(1 << 24)
    spans = [AccessSpan(64 * i, 60, "state", f"block {i}") for i in range(1 << 16)]
    bench.begin(spans)
    base = bench.arena.tensor(0, bench.arena.size, torch.uint8, (1,), (1,))
    for block in (0, 1, 1 << 15, (1 << 16) - 1):
        bench.kernels.block_copy[(1,)](base, 64, block, 7, BLOCK=32)
    assert bench.executor.faults() == ()
    bench.kernels.block_copy[(1,)](base, 64, 3, 4, BLOCK=64)
    assert [(fault.lane, fault.is_store) for fault in bench.executor.faults()] == [
        (lane, is_store) for is_store in (False, True) for lane in range(60, 64)
    ]


def test_launching_before_begin_is_an_error(make_bench: Callable[..., Any]) -> None:
    bench = make_bench()
    with pytest.raises(RuntimeError, match="call begin"):
        bench.kernels.write_at[(1,)](bench.arena.tensor(0, 16, torch.int32, (4,), (1,)), 0)


def test_merging_spans() -> None:
    places = [
        (50, 10, False),
        (0, 10, False),
        (10, 5, False),
        (12, 20, True),
        (13, 2, False),
        (32, 1, True),
        (90, 0, True),
    ]
    found = merged([AccessSpan(start, size, "object", "o", writable) for start, size, writable in places])
    table = list(zip(*(column.tolist() for column in found), strict=True))
    assert table == [(0, 10, 0), (10, 22, 1), (32, 1, 1), (50, 10, 0)]
    assert [len(column) for column in merged([])] == [0, 0, 0]


def test_an_atomic_access_outside_of_every_span(bench: Any) -> None:
    out = bench.put([-1] * 4, torch.int32)
    counter = bench.arena.tensor(0, 4, torch.int32, (1,), (1,))
    counter.fill_(5)
    bench.kernels.claim[(2,)](counter, out)
    assert counter.item() == 5
    faults = taken_faults(bench)
    assert {(fault.violation, fault.is_store, fault.offset) for fault in faults} == {("out-of-bounds", True, 0)}
    assert faults[0].line == line_of(bench.kernels.claim, "atomic_add")


@pytest.mark.parametrize(("skip", "promised", "kept"), [(16, 16, True), (4, 4, True), (4, 16, False), (8, 16, False)])
def test_a_promise_to_the_compiler_is_checked(bench: Any, skip: int, promised: int, kept: bool) -> None:
    """On a GPU, wide accesses rely on it; here the word is loaded, and the broken promise is reported."""
    words = bench.put(list(range(8)), torch.int32)
    out = bench.put([-1], torch.int32)
    bench.kernels.alignment[(1,)](bench.put([words.data_ptr() + skip], torch.int64), out, PROMISED=promised)
    assert out.item() == skip // 4
    faults = taken_faults(bench)
    if kept:
        assert faults == ()
    else:
        (fault,) = faults
        assert (fault.violation, fault.offset, fault.width) == ("misaligned", bench.offset(words) + skip, promised)
        assert fault.line == line_of(bench.kernels.alignment, "multiple_of")
