"""What memory must hold afterwards, written by hand; and the cases for which nothing is promised."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.case import (
    Case,
    ConvState,
    InvalidCase,
    Layout,
    Postprocess,
    PostprocessRow,
    Precopy,
    PrecopyRow,
    State,
    TemporalState,
)
from harness.check.operations.registry import expect
from harness.memory import Image, MemoryPlan, initial_image, plan_memory
from harness.oracles.expected import Expected


def expected(case: Case, index: int = 0) -> tuple[MemoryPlan, Image, Expected]:
    plan = plan_memory(case, 32)
    before = initial_image(case, plan)
    return plan, before, expect(case, plan, index, before)


def changed(before: Image, after: Image, start: int) -> set[int]:
    """Bytes that differ, relative to `start`."""
    return {at - start + i for at, size in before.differences(after) for i in range(size)}


def precopy(*rows: tuple[int, int, int], slots: tuple[int, ...] | None = None) -> Precopy:
    return Precopy(
        runner="V1" if slots is None else "V2",
        rows=tuple(
            PrecopyRow(
                slot=i if slots is None else slots[i], source_column=source, destination_column=destination, bias=bias
            )
            for i, (source, destination, bias) in enumerate(rows)
        ),
    )


def test_a_move_writes_every_state_of_every_group_and_nothing_else(make_case: Callable[..., Case]) -> None:
    plan, before, result = expected(make_case(precopy((0, 1, 0))))
    start = plan.base.buffers[0]
    after = result.image
    page = [before.view(start + 64 * block, 64).copy() for block in range(5)]
    wanted = [part.copy() for part in page]
    wanted[2][0:24] = page[1][0:24]  # group 0: block 1 to block 2
    wanted[2][32:56] = page[1][32:56]
    wanted[4][0:32] = page[3][0:32]  # group 1: block 3 to block 4
    assert after.view(start, 320).tolist() == np.concatenate(wanted).tolist()
    assert changed(before, after, start) <= {*range(128, 152), *range(160, 184), *range(256, 288)}
    assert len(changed(before, after, start)) > 70
    assert (len(result.copies), result.resets, result.accepted_out, result.expects_work) == (3, 0, None, True)


def test_the_snapshot_stays_as_it_was(make_case: Callable[..., Case]) -> None:
    plan = plan_memory(make_case(), 32)
    before = initial_image(make_case(), plan)
    kept = before.copy()
    expect(make_case(), plan, 0, before)
    assert list(kept.differences(before)) == []


@pytest.mark.parametrize("bias", [1, 2, 3])
@pytest.mark.parametrize("conv_layout", ["SD", "DS"])
def test_a_shift_within_one_block(make_case: Callable[..., Case], conv_layout: str, bias: int) -> None:
    """All drafts accepted on a block boundary: source and destination are column 0, the window moves left by `bias`.

    The last `bias` tokens are unchanged. Tokens of the three-token window are distinguished by hand.
    """
    row = PostprocessRow(slot=0, scheduled=bias + 1, computed=3 - bias, draft=bias, accepted=bias + 1, state_column=0)
    case = make_case(
        Postprocess(runner="V1", rows=(row,)), conv_layout=conv_layout, tables=(((1, 2, 2, 2),), ((3, 4, 4, 4),))
    )
    plan, before, result = expected(case)
    assert (row.running, row.new_computed) == (4 - bias, 4)
    block = plan.base.buffers[0] + 64

    def token(image: Image, at: int) -> list[list[int]]:
        """Bytes of one token, by row."""
        offsets = [block + at * 8 + r * 2 if conv_layout == "SD" else block + r * 8 + at * 2 for r in range(4)]
        return [image.view(offset, 2).tolist() for offset in offsets]

    old = [token(before, at) for at in range(3)]
    new = [token(result.image, at) for at in range(3)]
    assert new == {1: [old[1], old[2], old[2]], 2: [old[2], old[1], old[2]], 3: old}[bias]
    assert len({str(part) for part in old}) == 3
    # The temporal states come from the column of the last accepted token: block 2, block 4 (32 bytes of it).
    assert result.image.view(block + 32, 24).tolist() == before.view(block + 64 + 32, 24).tolist()
    start = plan.base.buffers[0]
    assert result.image.view(start + 192, 32).tolist() == before.view(start + 256, 32).tolist()
    assert result.accepted_out == [1]
    assert result.resets == 1


def test_ds_gaps_are_no_part_of_a_copy(make_case: Callable[..., Case]) -> None:
    plan, before, result = expected(make_case(precopy((0, 1, 0)), conv_layout="DS"))
    start = plan.base.buffers[0] + 128
    for r in range(4):
        assert result.image.view(start + 8 * r, 6).tolist() == before.view(start - 64 + 8 * r, 6).tolist()
        assert result.image.view(start + 8 * r + 6, 2).tolist() == before.view(start + 8 * r + 6, 2).tolist()


def test_v1_counts_come_out_by_batch_row(make_case: Callable[..., Case]) -> None:
    rows = (
        PostprocessRow(slot=0, scheduled=3, computed=1, draft=2, accepted=3, state_column=0),  # reset to 1
        PostprocessRow(slot=1, scheduled=1, computed=0, draft=0, accepted=0, state_column=0),
        PostprocessRow(slot=2, scheduled=3, computed=0, draft=2, accepted=2, state_column=0),
    )
    case = make_case(Postprocess(runner="V1", rows=rows), tables=(((1, 2, 2),) * 3, ((3, 4, 4),) * 3))
    plan, before, result = expected(case)
    assert result.accepted_out == [1, 0, 2]
    assert result.resets == 1
    span = plan.arrays[0]["accepted"]
    assert result.image.view(span.start, span.size).tolist() == before.view(span.start, span.size).tolist()


def test_v2_counts_are_updated_in_place_by_slot(make_case: Callable[..., Case]) -> None:
    rows = (
        PostprocessRow(slot=2, scheduled=3, computed=1, draft=2, accepted=3, state_column=0),  # reset to 1
        PostprocessRow(slot=-1, scheduled=3, computed=1, draft=2, accepted=3, state_column=0),
        PostprocessRow(slot=0, scheduled=3, computed=0, draft=2, accepted=2, state_column=0),
    )
    case = make_case(Postprocess(runner="V2", rows=rows), tables=(((1, 2, 2),) * 3, ((3, 4, 4),) * 3))
    plan, before, result = expected(case)
    span = plan.arrays[0]["accepted"]
    assert result.accepted_out is None
    assert [result.image.cell(span.start + 4 * slot) for slot in (2, 0)] == [1, 2]
    assert result.image.cell(span.start + 4) == before.cell(span.start + 4), "a slot that is in no batch row"
    assert result.resets == 1


@pytest.mark.parametrize(
    ("operation", "copies", "resets"),
    [
        (precopy((-1, 0, 0)), 0, 0),
        (precopy((1, 1, 2)), 0, 0),
        (precopy((0, 1, 0), slots=(-1,)), 0, 0),
        (precopy(), 0, 0),
        (precopy((0, 1, 3)), 2, 0),  # a bias of the window: only temporal states move
        (
            Postprocess(
                runner="V1",
                rows=(PostprocessRow(slot=0, scheduled=1, computed=3, draft=0, accepted=1, state_column=0),),
            ),
            0,
            0,
        ),
    ],
)
def test_how_much_work_is_expected(make_case: Callable[..., Case], operation: object, copies: int, resets: int) -> None:
    case = make_case(operation, tables=(((1, 2, 2, 0),), ((3, 4, 4, 0),)))
    _, before, result = expected(case)
    assert (len(result.copies), result.resets) == (copies, resets)
    assert result.expects_work == (copies > 0)
    if not copies:
        assert list(before.differences(result.image)) == []


def test_later_operations_see_what_earlier_ones_left(make_case: Callable[..., Case]) -> None:
    case = make_case(precopy((0, 1, 0)), precopy((1, 2, 0)), tables=(((1, 2, 1),), ((3, 4, 3),)))
    plan = plan_memory(case, 32)
    before = initial_image(case, plan)
    middle = expect(case, plan, 0, before).image
    after = expect(case, plan, 1, middle).image
    start = plan.base.buffers[0]
    assert after.view(start + 64, 24).tolist() == before.view(start + 64, 24).tolist()
    assert list(middle.differences(after)) == []


# Conflicts. One group with one state of 8 bytes in blocks 1 .. 7 of 16 bytes: tables are written row by row.


ConflictCase = Callable[..., Case]


@pytest.fixture(scope="session")
def conflict_case(make_case: Callable[..., Case], make_plain_layout: Callable[..., Layout]) -> ConflictCase:
    """Rows of one table over eight blocks of 16 bytes, which hold one state of `extent` bytes, or `state`."""

    def make(operation: Precopy, *rows: tuple[int, ...], extent: int = 8, state: State | None = None) -> Case:
        temporal = TemporalState(item_size=1, shape=(extent,), buffer=0, offset=0, block_stride=16)
        layout = make_plain_layout(state or temporal, num_spec=2 if state else 0)
        return make_case(operation, layout=layout, tables=(rows,), owners=(-1, 0, 0, 0, 0, 0, 0, 0), payload_seed=0)

    return make


MOVES = [(0, 1, 0)] * 4


@pytest.mark.parametrize(
    "rows",
    [
        ((1, 2), (3, 2)),  # one destination twice
        ((1, 2), (2, 3)),  # a destination is the source of another
        ((2, 3), (1, 2)),  # the same, in the other order
        ((1, 2), (2, 1)),  # a swap
        ((1, 2), (3, 4), (5, 6), (7, 2)),
        ((1, 2), (3, 4), (5, 6), (6, 7)),
        ((7, 6), (5, 4), (3, 2), (2, 1)),
        ((2, 2), (2, 3)),  # its own block, read by another
        ((0, 1), (1, 0)),
    ],
)
def test_a_byte_that_one_program_writes_and_another_uses_is_refused(
    rows: tuple[tuple[int, int], ...], conflict_case: ConflictCase
) -> None:
    for order in set(itertools.permutations(rows)):
        with pytest.raises(InvalidCase, match="one copy writes bytes that another one uses") as caught:
            expected(conflict_case(precopy(*MOVES[: len(rows)]), *order))
        assert "\n" not in str(caught.value)


def test_the_refusal_names_both_rows(conflict_case: ConflictCase) -> None:
    case = conflict_case(precopy(*MOVES), (1, 2), (3, 4), (5, 6), (7, 2))
    with pytest.raises(InvalidCase, match=r"^batch rows 0 and 3:"):
        expected(case)


@pytest.mark.parametrize(
    "rows",
    [
        ((1, 2), (1, 3)),  # a shared source
        ((1, 2), (1, 3), (1, 4), (1, 5)),
        ((1, 1), (2, 2)),  # onto itself
        ((2, 1), (4, 3), (6, 5)),
        ((0, 1), (0, 2)),  # the null block as a shared source
    ],
)
def test_shared_sources_and_own_overlap_are_allowed(
    rows: tuple[tuple[int, int], ...], conflict_case: ConflictCase
) -> None:
    for order in set(itertools.permutations(rows)):
        _, _, result = expected(conflict_case(precopy(*MOVES[: len(rows)]), *order))
        assert len(result.copies) == len(rows)


@given(rows=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=4))
def test_the_refusal_agrees_with_a_check_of_every_pair(
    conflict_case: ConflictCase, rows: list[tuple[int, int]]
) -> None:
    conflict = any(one[1] in other for (i, one), (j, other) in itertools.product(enumerate(rows), repeat=2) if i != j)
    case = conflict_case(precopy(*MOVES[: len(rows)]), *rows)
    if conflict:
        with pytest.raises(InvalidCase):
            expected(case)
    else:
        assert len(expected(case)[2].copies) == len(rows)


def test_neighbours_that_touch_are_no_conflict(conflict_case: ConflictCase) -> None:
    """Blocks without gaps: the end of one copy is the beginning of another."""
    _, _, result = expected(conflict_case(precopy((0, 1, 0), (0, 1, 0)), (1, 2), (4, 3), extent=16))
    assert len(result.copies) == 2


def test_groups_that_share_a_block_conflict(make_case: Callable[..., Case]) -> None:
    with pytest.raises(InvalidCase, match="batch rows 0:"):
        expected(make_case(precopy((0, 1, 0)), tables=(((1, 2),), ((3, 2),))))


def test_states_side_by_side_in_a_page_do_not_conflict(make_case: Callable[..., Case]) -> None:
    _, _, result = expected(make_case(precopy((0, 1, 0))))
    assert len(result.copies) == 3


@pytest.mark.parametrize(("second", "refused"), [((2, 3), True), ((4, 3), False)])
def test_conflicts_are_looked_for_in_biased_windows(
    second: tuple[int, int], refused: bool, conflict_case: ConflictCase
) -> None:
    """A shift within a block and another request that reads, or does not read, that block."""
    state = ConvState(item_size=1, window=4, dim=2, buffer=0, offset=0, block_stride=8)
    case = conflict_case(precopy((0, 1, 2), (0, 1, 0)), (2, 2), second, state=state)
    if refused:
        with pytest.raises(InvalidCase, match="batch rows 0 and 1"):
            expected(case)
    else:
        assert len(expected(case)[2].copies) == 2


def test_a_column_outside_the_row_is_refused(make_case: Callable[..., Case]) -> None:
    with pytest.raises(InvalidCase, match="slot 0: column 4 is outside the table row of 4 cells"):
        expected(make_case(precopy((0, 4, 0))))


def test_an_accepted_token_past_the_row_is_refused(make_case: Callable[..., Case]) -> None:
    with pytest.raises(InvalidCase, match="slot 0: column 5 is outside"):
        expected(make_case(precopy((3, 1, 2)), tables=(((1, 2, 2, 1),), ((3, 4, 4, 3),))))
