"""The watch record: which memory may be touched, from call to call."""

from __future__ import annotations

from harness.kernels.executors.base import AccessSpan, AllowedSpans
from harness.kernels.executors.native import abi
from harness.kernels.executors.native.runtime import KNOWN_SPANS, Watch


def span(start: int, size: int, *, writable: bool = True) -> AccessSpan:
    return AccessSpan(start, size, "an object", "an object", writable)


def allowed(watch: Watch) -> list[tuple[int, int, int]]:
    """Start, size and whether it is writable, as kernels get them."""
    assert int(watch.record[abi.SPAN_COUNT]) == len(watch._starts)
    assert int(watch.record[abi.SPAN_STARTS]) == watch._starts.ctypes.data
    assert int(watch.record[abi.SPAN_SIZES]) == watch._sizes.ctypes.data
    assert int(watch.record[abi.SPANS_WRITABLE]) == watch._writable.ctypes.data
    return list(zip(watch._starts.tolist(), watch._sizes.tolist(), watch._writable.tolist(), strict=True))


def test_calls_that_take_turns_may_each_touch_their_own() -> None:
    watch, fixed = Watch(), (span(0, 8, writable=False),)
    first, second = (span(16, 4),), (span(32, 2), span(64, 1))
    for _ in range(3):
        watch.begin(1000, AllowedSpans(fixed, first))
        assert allowed(watch) == [(1000, 8, 0), (1016, 4, 1)]
        watch.begin(1000, AllowedSpans(fixed, second))
        assert allowed(watch) == [(1000, 8, 0), (1032, 2, 1), (1064, 1, 1)]


def test_another_base_and_other_fixed_spans_are_noticed() -> None:
    watch, more = Watch(), (span(16, 4),)
    one, other = (span(0, 8),), (span(4, 8),)
    for base, fixed in ((0, one), (0, other), (100, other), (0, one)):
        watch.begin(base, AllowedSpans(fixed, more))
        assert allowed(watch) == [(base + fixed[0].start, 8, 1), (base + 16, 4, 1)]


def test_tuples_that_are_made_anew_are_never_mistaken_for_earlier_ones() -> None:
    watch, fixed = Watch(), (span(0, 8),)
    for number in range(4 * KNOWN_SPANS):
        watch.begin(0, AllowedSpans(fixed, (span(16 + number, 4),)))
        assert allowed(watch)[-1] == (16 + number, 4, 1)
