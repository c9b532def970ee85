"""Judging a case: every kind of harm is seen, named and signed; a right run passes; skips are never passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.case import Case, InvalidCase, Postprocess, PostprocessRow, Precopy, PrecopyRow
from harness.check.judging import HarnessError
from harness.check.outcome import Signature
from harness.check.private_memory import ReserveExhausted
from harness.kernels.executors.base import AccessFault, ExecutorCannot
from harness.kernels.targets.base import OutsideContract, TargetLacks

MOVE = Precopy(runner="V1", rows=(PrecopyRow(slot=0, source_column=0, destination_column=1, bias=0),))
FRESH = Precopy(runner="V1", rows=(PrecopyRow(slot=0, source_column=-1, destination_column=1, bias=0),))
RESET = Postprocess(
    runner="V1", rows=(PostprocessRow(slot=0, scheduled=3, computed=1, draft=2, accepted=3, state_column=0),)
)
IN_PLACE = Postprocess(
    runner="V2", rows=(PostprocessRow(slot=2, scheduled=3, computed=1, draft=2, accepted=3, state_column=0),)
)
WIDE = {"tables": (((1, 2, 2),) * 3, ((3, 4, 4),) * 3)}
PAGE = 64


def signature(outcome: Any) -> str:
    assert outcome.failure is not None
    return str(outcome.failure.signature)


@pytest.mark.parametrize("conv_layout", ["SD", "DS"])
@pytest.mark.parametrize(
    ("operation", "moves"), [(MOVE, 3), (FRESH, 0), (RESET, 3), (IN_PLACE, 3), (Precopy(runner="V2", rows=()), 0)]
)
def test_a_right_run_is_a_pass(
    shop: Any, make_case: Callable[..., Case], conv_layout: str, operation: Any, moves: int
) -> None:
    outcome = shop.check(make_case(operation, conv_layout=conv_layout, **WIDE))
    (verdict,) = outcome.verdicts
    assert (verdict.status, verdict.launches, verdict.moves) == ("pass", 1, moves)
    assert verdict.operation == type(operation).__name__.lower()
    assert outcome.failure is None
    assert outcome.signature is None


# Where one byte is damaged after a right MOVE (blocks 1 -> 2 of group 0, 3 -> 4 of group 1), and the violation.
PRECOPY_HARM = {
    "conv-copied": (lambda s: s.plan.base.buffers[0] + 2 * PAGE, "wrong-bytes/conv/{}"),
    "conv-last": (lambda s: s.plan.base.buffers[0] + 2 * PAGE + 21, "wrong-bytes/conv/{}"),
    "temporal-copied": (lambda s: s.plan.base.buffers[0] + 2 * PAGE + 32, "wrong-bytes/temporal/-"),
    "temporal-last": (lambda s: s.plan.base.buffers[0] + 2 * PAGE + 55, "wrong-bytes/temporal/-"),
    "other-group": (lambda s: s.plan.base.buffers[0] + 4 * PAGE, "wrong-bytes/temporal/-"),
    "source-conv": (lambda s: s.plan.base.buffers[0] + PAGE, "stray-write/conv/{}"),
    "source-temporal": (lambda s: s.plan.base.buffers[0] + PAGE + 32, "stray-write/temporal/-"),
    "null-block": (lambda s: s.plan.base.buffers[0] + 40, "stray-write/temporal/-"),
    "padding": (lambda s: s.plan.base.buffers[0] + 2 * PAGE + 56, "stray-write/padding/-"),
    "last-padding": (lambda s: s.plan.base.buffers[0] + 319, "stray-write/padding/-"),
    "before-buffer": (lambda s: s.plan.base.buffers[0] - 1, "stray-write/guard/-"),
    "after-buffer": (lambda s: s.plan.base.buffers[0] + 320, "stray-write/guard/-"),
    "first-byte": (lambda s: 0, "stray-write/guard/-"),
    "last-byte": (lambda s: s.plan.size - 1, "stray-write/guard/-"),
    "table": (lambda s: s.plan.base.tables[0], "stray-write/table/-"),
    "stale-row": (lambda s: s.plan.base.tables[1] + 47, "stray-write/table/-"),
    "after-table": (lambda s: s.plan.base.tables[1] + 48, "stray-write/guard/-"),
    "source-column": (lambda s: s.plan.arrays[0]["source_column"].start, "stray-write/source_column/-"),
    "bias": (lambda s: s.plan.arrays[0]["bias"].start + 11, "stray-write/bias/-"),
    "before-argument": (lambda s: s.plan.arrays[0]["destination_column"].start - 1, "stray-write/guard/-"),
    "between-arguments": (lambda s: s.plan.arrays[0]["bias"].start - 1, "stray-write/guard/-"),
    "behind-private": (lambda s: sum(s.plan.base.private), "stray-write/guard/-"),
}


@pytest.mark.parametrize("conv_layout", ["SD", "DS"])
@pytest.mark.parametrize("where", PRECOPY_HARM)
def test_one_damaged_byte_anywhere(shop: Any, make_case: Callable[..., Case], conv_layout: str, where: str) -> None:
    offset, wanted = PRECOPY_HARM[where]
    outcome = shop.check(make_case(MOVE, conv_layout=conv_layout), lambda s: s.flip(offset(s)))
    at = offset(shop)
    if conv_layout == "DS" and where == "conv-last":
        assert at % 8 == 5  # row 2 of 4: inside a row, not in a gap
    assert signature(outcome) == "precopy/memory/" + wanted.format(conv_layout)
    evidence = outcome.failure.evidence
    (difference,) = evidence.differences
    assert (difference.offset, difference.size, evidence.total_bytes) == (at, 1, 1)
    assert int(difference.expected, 16) ^ int(difference.found, 16) == 255
    assert difference.expected == f"{int(shop.expected.image.view(at, 1)[0]):02x}"
    assert difference.before == f"{int(shop_before(shop).view(at, 1)[0]):02x}"
    assert difference.place in evidence.summary
    assert "\n" not in evidence.summary


def shop_before(shop: Any) -> Any:
    from harness.memory import initial_image

    return initial_image(shop.case, shop.plan)


def test_a_gap_between_ds_rows_is_padding(shop: Any, make_case: Callable[..., Case]) -> None:
    """Blocks 1 and 2 are group 0's, but group 1's tensor spans the gap: its name comes from the owner's view."""
    case = make_case(MOVE, conv_layout="DS", owners=(-1, 0, 0, 0, 0), tables=(((1, 2),), ((3, 4),)))
    outcome = shop.check(case, lambda s: s.flip(s.plan.base.buffers[0] + 2 * PAGE + 6))
    assert outcome.failure.signature.violation == "stray-write"


@pytest.mark.parametrize("slot", [0, 1, 2])
def test_accepted_counts_in_place(shop: Any, make_case: Callable[..., Case], slot: int) -> None:
    outcome = shop.check(make_case(IN_PLACE, **WIDE), lambda s: s.flip(s.plan.arrays[0]["accepted"].start + 4 * slot))
    assert signature(outcome) == "postprocess/memory/wrong-bytes/accepted/-"
    assert f"accepted[{slot}] (slot {slot})" in outcome.failure.evidence.summary


def test_input_counts_of_v1_must_stay(shop: Any, make_case: Callable[..., Case]) -> None:
    outcome = shop.check(make_case(RESET, **WIDE), lambda s: s.flip(s.plan.arrays[0]["accepted"].start))
    assert signature(outcome) == "postprocess/memory/stray-write/accepted/-"


def test_the_mapping_must_stay(shop: Any, make_case: Callable[..., Case]) -> None:
    outcome = shop.check(make_case(IN_PLACE, **WIDE), lambda s: s.flip(s.plan.arrays[0]["mapping"].start + 7))
    assert signature(outcome) == "postprocess/memory/stray-write/mapping/-"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (0, "accepted count of batch row 0: expected 1, found 42"),
        (1, "accepted count of entry 1, past the 1 rows of the batch: expected -7, found 42"),
        (2, "accepted count of entry 2, past the 1 rows of the batch: expected -7, found 42"),
    ],
)
def test_counts_in_the_context(shop: Any, make_case: Callable[..., Case], entry: int, message: str) -> None:
    def harm(s: Any) -> None:
        s.accepted_out[entry] = 42

    outcome = shop.check(make_case(RESET, **WIDE), harm)
    assert signature(outcome) == "postprocess/memory/wrong-count/accepted/-"
    assert outcome.failure.evidence.summary == message
    assert outcome.failure.evidence.total_bytes == 4


@pytest.mark.parametrize(("name", "beyond"), [("scratch", 48), ("scratch", -1), ("accepted_out", 12)])
def test_fences_of_private_memory(shop: Any, make_case: Callable[..., Case], name: str, beyond: int) -> None:
    def harm(s: Any) -> None:
        s.flip(getattr(s, name).data_ptr() - s.executor.arena.address + beyond)

    outcome = shop.check(make_case(MOVE), harm)
    assert signature(outcome) == "precopy/memory/stray-write/private/-"
    assert name in outcome.failure.evidence.summary


def test_private_contents_are_the_target_s_own_business(shop: Any, make_case: Callable[..., Case]) -> None:
    assert shop.check(make_case(MOVE), lambda s: s.scratch.fill_(3)).failure is None


def test_bytes_behind_the_last_private_buffer_are_watched(shop: Any, make_case: Callable[..., Case]) -> None:
    def harm(s: Any) -> None:
        s.flip(s.accepted_out.data_ptr() - s.executor.arena.address + 12 + 250)

    assert signature(shop.check(make_case(MOVE), harm)) == "precopy/memory/stray-write/private/-"


def test_a_target_that_does_nothing_copies_wrong_bytes(shop: Any, make_case: Callable[..., Case]) -> None:
    shop.idle = True
    outcome = shop.check(make_case(MOVE))
    assert outcome.failure.signature.violation == "wrong-bytes"
    assert outcome.failure.evidence.total_bytes > 70
    assert len(outcome.failure.evidence.differences) <= 8


def test_a_fault_has_one_signature_independent_of_other_damage(shop: Any, make_case: Callable[..., Case]) -> None:
    """A write outside all states outweighs a wrong copy, and that outweighs a write over another state."""
    base = "precopy/memory/"

    def harm(*names: str) -> str:
        def do(s: Any) -> None:
            for name in names:
                s.flip(PRECOPY_HARM[name][0](s))

        return signature(shop.check(make_case(MOVE), do)).removeprefix(base)

    assert harm("temporal-copied", "padding", "source-temporal") == "stray-write/padding/-"
    assert harm("temporal-copied", "source-temporal") == "wrong-bytes/temporal/-"
    assert harm("conv-copied", "temporal-copied") == "wrong-bytes/temporal/-"
    assert harm("source-conv", "table") == "stray-write/table/-"
    assert harm("after-buffer", "padding") == "stray-write/padding/-"


def test_a_run_over_several_objects_is_split(shop: Any, make_case: Callable[..., Case]) -> None:
    """From the last copied byte of a block over its padding into the next block."""
    start = PAGE * 2 + 55
    outcome = shop.check(make_case(MOVE), lambda s: s.flip(s.plan.base.buffers[0] + start, 12))
    sizes = {(d.violation, d.object): d.size for d in outcome.failure.evidence.differences}
    assert sizes[("wrong-bytes", "temporal")] == 1
    assert ("stray-write", "padding") in sizes
    assert outcome.failure.evidence.total_bytes == 12


@pytest.mark.parametrize(
    ("violation", "is_store", "place", "wanted"),
    [
        ("out-of-bounds", True, "padding", "access/out-of-bounds/padding/-"),
        ("out-of-bounds", False, "after-buffer", "access/out-of-bounds/guard/-"),
        ("out-of-bounds", False, "conv-copied", "access/out-of-bounds/conv/SD"),
        ("misaligned", True, "temporal-copied", "access/misaligned/temporal/-"),
    ],
)
def test_accesses_that_an_executor_saw(
    shop: Any, make_case: Callable[..., Case], violation: str, is_store: bool, place: str, wanted: str
) -> None:
    def harm(s: Any) -> None:
        offset = PRECOPY_HARM[place][0](s)
        s.executor.seen.append(
            AccessFault(violation, is_store, offset, 4, "kernel", "/src/copy.py", "copy", 12, (1, 2, 0), 3)
        )

    outcome = shop.check(make_case(MOVE), harm)
    assert signature(outcome) == "precopy/" + wanted
    summary = outcome.failure.evidence.summary
    assert summary.startswith(f"{violation} 4-byte {'store' if is_store else 'load'} at ")
    assert summary.endswith("kernel, copy.py:12 (copy), program (1, 2, 0), lane 3")


def test_stores_outweigh_loads(shop: Any, make_case: Callable[..., Case]) -> None:
    def harm(s: Any) -> None:
        for is_store, place in ((False, "padding"), (True, "after-buffer"), (True, "padding")):
            offset = PRECOPY_HARM[place][0](s)
            s.executor.seen.append(AccessFault("out-of-bounds", is_store, offset, 4, "k", "", "f", 1, (0, 0, 0), 0))

    outcome = shop.check(make_case(MOVE), harm)
    assert signature(outcome) == "precopy/access/out-of-bounds/guard/-"
    assert len(outcome.failure.evidence.details) == 3
    assert outcome.failure.evidence.total_bytes == 12


def test_kernels_may_touch_blocks_tables_arguments_and_private_memory_only(
    shop: Any, make_case: Callable[..., Case]
) -> None:
    shop.check(make_case(MOVE, conv_layout="DS"))
    allowed = {offset for span in shop.executor.spans for offset in range(span.start, span.start + span.size)}
    plan = shop.plan
    wanted = {plan.base.buffers[0] + PAGE * block + byte for block in range(5) for byte in range(56)}
    for table in plan.base.tables:
        wanted |= set(range(table, table + 48))
    for span in plan.arrays[0].values():
        wanted |= set(range(span.start, span.start + span.size))
    for tensor in (shop.scratch, shop.accepted_out):
        start = tensor.data_ptr() - shop.executor.arena.address
        wanted |= set(range(start, start + tensor.numel() * tensor.element_size()))
    assert allowed == wanted


def test_an_exception_is_a_finding(shop: Any, make_case: Callable[..., Case]) -> None:
    def harm(s: Any) -> None:
        raise KeyError("two\nlines")

    outcome = shop.check(make_case(MOVE), harm)
    assert outcome.failure.signature == Signature("precopy", "exception", "KeyError", "half-way", "-")
    assert "\n" not in outcome.failure.evidence.summary
    assert shop.check(make_case(MOVE)).failure is None
    assert shop.binds == 2, "a context that failed serves no other case"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TargetLacks("no such thing"), "lacks-operation"),
        (OutsideContract("asserts that"), "outside-contract"),
        (ExecutorCannot("no room"), "executor-cannot"),
    ],
)
def test_skips_have_a_reason(shop: Any, make_case: Callable[..., Case], error: Exception, reason: str) -> None:
    def harm(s: Any) -> None:
        raise error

    outcome = shop.check(make_case(MOVE, MOVE), harm)
    (verdict,) = outcome.verdicts
    assert (verdict.status, verdict.reason, verdict.detail) == ("skip", reason, str(error))
    assert outcome.failure is None


@pytest.mark.parametrize("error", [ReserveExhausted, KeyboardInterrupt, HarnessError])
def test_exceptions_that_are_not_findings_are_raised(
    shop: Any, make_case: Callable[..., Case], error: type[BaseException]
) -> None:
    def harm(s: Any) -> None:
        raise error

    with pytest.raises(error):
        shop.check(make_case(MOVE), harm)


def test_nothing_launched_where_work_was_expected_is_our_own_fault(shop: Any, make_case: Callable[..., Case]) -> None:
    shop.launches = 0
    with pytest.raises(HarnessError, match="without launching a kernel"):
        shop.check(make_case(MOVE))
    assert shop.check(make_case(FRESH)).failure is None


def test_a_right_move_of_equal_bytes_still_needs_a_launch(shop: Any, make_case: Callable[..., Case]) -> None:
    """Doing nothing leaves the right bytes here: only the count of launches shows it."""
    onto_itself = make_case(MOVE, tables=(((1, 1),), ((3, 3),)))
    shop.launches = 0
    with pytest.raises(HarnessError):
        shop.check(onto_itself)


def test_a_program_stops_at_its_first_failure(shop: Any, make_case: Callable[..., Case]) -> None:
    case = make_case(MOVE, MOVE, MOVE)
    outcome = shop.check(case, lambda s: None, lambda s: s.flip(0))
    assert [verdict.status for verdict in outcome.verdicts] == ["pass", "fail"]
    assert len(shop.calls) == 2


def test_later_operations_run_on_what_earlier_ones_left(shop: Any, make_case: Callable[..., Case]) -> None:
    back = Precopy(runner="V1", rows=(PrecopyRow(slot=0, source_column=1, destination_column=2, bias=0),))
    case = make_case(MOVE, back, tables=(((1, 2, 0),), ((3, 4, 0),)), owners=(-1, 0, 0, 1, 1))
    with pytest.raises(InvalidCase):  # both groups would write the null block
        shop.check(case)
    again = make_case(MOVE, MOVE)
    assert [verdict.status for verdict in shop.check(again).verdicts] == ["pass", "pass"]


def test_damage_does_not_reach_the_next_case(shop: Any, make_case: Callable[..., Case]) -> None:
    for where, (offset, _) in PRECOPY_HARM.items():
        assert shop.check(make_case(MOVE), lambda s, at=offset: s.flip(at(s))).failure is not None, where
        assert shop.check(make_case(MOVE)).failure is None, where


def test_cases_of_one_layout_share_a_context(shop: Any, make_case: Callable[..., Case]) -> None:
    for seed in range(3):
        assert shop.check(make_case(MOVE, payload_seed=seed)).failure is None
    assert shop.binds == 1
    shop.check(make_case(MOVE, conv_layout="DS"))
    assert shop.binds == 2


def test_tensors_are_those_of_the_layout(shop: Any, make_case: Callable[..., Case]) -> None:
    import torch

    shop.check(make_case(MOVE, conv_layout="DS"))
    (conv, temporal), (other,) = (group[0] for group in shop.tensors.states)
    assert (conv.shape, conv.stride(), conv.dtype) == ((5, 4, 3), (32, 4, 1), torch.bfloat16)
    assert (temporal.shape, temporal.stride(), temporal.dtype) == ((5, 2, 3), (16, 3, 1), torch.float32)
    assert (other.shape, other.stride(), other.dtype) == ((5, 4), (8, 1), torch.float64)
    assert temporal.data_ptr() - conv.data_ptr() == 32
    assert other.data_ptr() == conv.data_ptr()
    assert [(table.shape, table.stride()) for table in shop.tensors.tables] == [((3, 4), (4, 1))] * 2
    shop.check(make_case(MOVE, conv_layout="SD"))
    assert shop.tensors.states[0][0][0].stride() == (32, 4, 1)
    assert shop.tensors.states[0][0][0].shape == (5, 3, 4)


def test_arguments_are_those_of_the_case(shop: Any, make_case: Callable[..., Case]) -> None:
    import torch

    shop.check(make_case(IN_PLACE, RESET, MOVE, **WIDE))
    in_place, reset, move = shop.calls
    assert (in_place.runner, in_place.num_requests, in_place.scheduled, in_place.draft) == ("V2", 1, None, None)
    assert (in_place.mapping.dtype, in_place.mapping.tolist()) == (torch.int64, [2])
    assert (int(in_place.new_computed[2]), int(in_place.state_column[2])) == (4, 0)
    assert (reset.runner, reset.mapping, reset.new_computed) == ("V1", None, None)
    assert [int(array[0]) for array in (reset.accepted, reset.scheduled, reset.computed, reset.draft)] == [3, 3, 1, 2]
    assert (move.mapping, [int(move.source_column[0]), int(move.destination_column[0])]) == (None, [0, 1])


def test_a_case_outside_the_preconditions_is_not_a_verdict(shop: Any, make_case: Callable[..., Case]) -> None:
    with pytest.raises(InvalidCase):
        shop.check(make_case(MOVE, tables=(((1, 2),), ((2, 1),))))
