"""The state oracle on plans written by hand: vLLM is not needed to know what a state should hold."""

from __future__ import annotations

import pytest

from harness.case.sequence import CONTINUATION, Segment
from harness.case.step_plan import MoveRow, PlannedRow, PostprocessInput, StepPlan
from harness.oracles.states.device import Device
from harness.oracles.states.state_oracle import StateOracle
from harness.oracles.states.texts import Text
from harness.oracles.states.violation import ViolationFound

NAME = "request 0"


def meaning(num_spec: int = 2) -> StateOracle:
    """Blocks of 4 tokens, a window of 3 taps and `num_spec` rows, Mamba group 1, attention group 0."""
    judge = StateOracle(Device(16, 3 + num_spec, 4), 4, 4, (1,), (0,), (4,))
    judge.texts[NAME] = Text((Segment(family=0, length=8),), 2)
    return judge


def row(computed: int, scheduled: int, **changes: object) -> PlannedRow:
    end = computed + scheduled
    plain = PlannedRow(
        NAME,
        0,
        computed,
        scheduled,
        0,
        False,
        1,
        (end - 1) // 4,
        end >= 8,
        0,
        -1,
        ([1, 2, 3, 4, 5],),
        ([8, 9, 10, 11],),
    )
    return plain._replace(**changes)


def run(judge: StateOracle, *rows: PlannedRow, right: int = 0, precopy: tuple[MoveRow, ...] = ()) -> dict[str, object]:
    return dict(judge.forward(StepPlan(precopy=list(precopy), rows=list(rows)), lambda _: right))


def move(source: int, destination: int, bias: int = 0) -> MoveRow:
    return MoveRow(NAME, 0, source, destination, bias, ([1, 2, 3, 4, 5],))


def violated(judge: StateOracle, *rows: PlannedRow, precopy: tuple[MoveRow, ...] = ()) -> tuple[str, str]:
    with pytest.raises(ViolationFound) as found:
        run(judge, *rows, precopy=precopy)
    return found.value.violation.kind, found.value.violation.state


def test_a_text_is_the_same_when_it_is_computed_again() -> None:
    one = Text((Segment(family=0, length=5),), 4)
    one.grow(9)
    other = Text((Segment(family=0, length=5), Segment(family=CONTINUATION, length=4)), 4)
    assert one.prefix[:10] == other.prefix
    assert Text((Segment(family=1, length=5),), 4).prefix[5] != one.prefix[5]


def test_a_request_computed_as_it_should_be_is_clean() -> None:
    judge = meaning()
    run(judge, row(0, 4))
    run(judge, row(4, 4), precopy=(move(0, 1),))
    judge.check_cache([judge.entry(1, 1, 4, judge.texts[NAME]), judge.entry(0, 8, 4, judge.texts[NAME])])
    assert judge.counters["cache entries checked"] == 2


def test_a_missing_move_is_a_wrong_read() -> None:
    judge = meaning()
    run(judge, row(0, 4))
    assert violated(judge, row(4, 4)) == ("wrong-state-read", "temporal")


def test_a_speculative_row_reads_the_state_of_what_was_accepted() -> None:
    judge = meaning()
    run(judge, row(0, 4))
    run(judge, row(4, 4), precopy=(move(0, 1),))
    decode = row(8, 3, drafts=2, speculative=True)
    run(judge, decode, right=1, precopy=(move(1, 2),))
    run(judge, row(10, 2, drafts=1, speculative=True, accepted=2), right=0)
    assert judge.counters["reads at an offset"] == 1


def test_a_padded_row_of_a_fresh_request_reads_what_lies_in_its_block() -> None:
    padded = row(0, 3, drafts=2, speculative=True)
    run(meaning(), padded)

    judge = meaning()
    judge.texts["request 1"] = Text((Segment(family=1, length=4),), 2)
    run(judge, row(0, 4)._replace(request="request 1", attention=([1],), mamba=([9],)))
    assert violated(judge, padded._replace(mamba=([9, 10, 11],))) == ("wrong-state-read", "temporal")


def test_keys_and_values_are_no_empty_state() -> None:
    padded = row(0, 3, drafts=2, speculative=True, attention=([2],), mamba=([1, 10, 11],))
    judge = meaning()
    judge.texts["request 1"] = Text((Segment(family=1, length=4),), 2)
    run(judge, row(0, 4)._replace(request="request 1", attention=([1],), mamba=([9],)))
    assert violated(judge, padded) == ("wrong-state-read", "temporal")

    judge.device.zero(1)
    run(judge, padded)


def test_a_fresh_row_with_the_count_of_another_one_reads_behind_drafts() -> None:
    """Its window is at an offset in the first block, its temporal state in another block."""
    padded = row(0, 3, drafts=2, speculative=True, accepted=3)
    run(meaning(), padded)
    for at, state in ((2, "temporal"), (0, "conv")):
        judge = meaning()
        judge.texts["request 1"] = Text((Segment(family=1, length=8),), 2)
        run(judge, row(0, 4)._replace(request="request 1", attention=([12],), mamba=([13],)))
        run(
            judge,
            row(4, 3, drafts=2, speculative=True)._replace(
                request="request 1", attention=([12, 14],), mamba=([13, 7, 9, 15],)
            ),
            precopy=(move(0, 1)._replace(request="request 1", mamba=([13, 7],)),),
        )
        mamba = [1, 2, 3]
        mamba[at] = 7
        if at == 0:
            judge.device.temporal[7] = 0
        assert violated(judge, padded._replace(mamba=(mamba,))) == ("wrong-state-read", state)


def test_an_accepted_count_that_was_lost_is_a_wrong_read() -> None:
    judge = meaning()
    run(judge, row(0, 4))
    run(judge, row(4, 4), precopy=(move(0, 1),))
    run(judge, row(8, 2, drafts=1, speculative=True), right=1, precopy=(move(1, 2),))
    assert violated(judge, row(10, 2, drafts=1, speculative=True)) == ("wrong-state-read", "temporal")


def test_postprocess_moves_to_the_boundary_and_resets_within_the_block() -> None:
    judge = meaning()
    run(judge, row(0, 4))
    run(judge, row(4, 4), precopy=(move(0, 1),))
    run(judge, row(8, 3, drafts=2, speculative=True), right=2, precopy=(move(1, 2),))
    tables = ([1, 2, 3, 4, 5],)
    counts = judge.postprocess([PostprocessInput(NAME, 0, 3, 8, 2, 3, 2, tables)])
    assert counts == {NAME: 3}  # 11 tokens: no boundary reached
    wider = ([1, 2, 3, 4, 5, 6],)
    assert judge.postprocess([PostprocessInput(NAME, 0, 4, 8, 3, 4, 2, wider)]) == {NAME: 1}


def test_a_poisoned_entry_is_found_before_it_is_read() -> None:
    judge = meaning()
    run(judge, row(0, 3))
    with pytest.raises(ViolationFound) as found:
        judge.check_cache([judge.entry(1, 1, 4, judge.texts[NAME])])
    assert found.value.violation.kind == "poisoned-cache-entry"
    assert found.value.violation.holds == "text 0, 3 tokens"
    judge.check_entries = False
    judge.check_cache([judge.entry(1, 1, 4, judge.texts[NAME])])


def test_one_block_under_two_written_columns_is_a_violation() -> None:
    judge = meaning()
    run(judge, row(0, 4))
    twice = row(4, 3, drafts=2, speculative=True, mamba=([1, 2, 2, 4, 5],))
    assert violated(judge, twice, precopy=(move(0, 1),))[0] == "block-written-twice"


@pytest.mark.parametrize(("tables", "kind"), [(([0, 2],), "null-block-written"), (([],), "column-outside-row")])
def test_writes_outside_what_a_row_owns(tables: tuple[list[int], ...], kind: str) -> None:
    assert violated(meaning(), row(0, 4, mamba=tables))[0] == kind


def test_a_block_that_another_row_reads_must_not_be_written() -> None:
    judge = meaning()
    other = MoveRow("request 1", 1, 0, 1, 0, ([6, 1],))
    with pytest.raises(ViolationFound) as found:
        judge.move([move(0, 1), other], "precopy")
    assert found.value.violation.kind == "read-while-written"


@pytest.mark.parametrize(
    ("rows", "moves", "message"),
    [
        ([row(4, 1, mamba=([1],))], (), "at column 1 of group 1: the row has 1 column, and column 1 lies outside"),
        ([row(0, 4, mamba=([],))], (), "at column 0 of group 1: the row has 0 columns, and column 0 lies outside"),
        ([row(0, 1, mamba=([],), speculative=True)], (), "the row has 0 columns, and column 0 lies outside"),
        ([row(0, 4, state_column=-1)], (), "at group 1: the row has 5 columns, and column -1 lies outside"),
        ([row(0, 8, attention=([8],))], (), "at column 1 of group 0: the row has 1 column, and column 1 lies outside"),
        ([], (move(3, 1, 2),), "at column 5 of group 1: the row has 5 columns, and column 5 lies outside"),
        ([], (move(-1, 2),), "at group 1: the row has 5 columns, and column -1 lies outside"),
    ],
)
def test_a_column_outside_its_row_is_reported_with_the_row_length(
    rows: list[PlannedRow], moves: tuple[MoveRow, ...], message: str
) -> None:
    judge = meaning()
    if rows and rows[0].computed:
        run(judge, row(0, 4))
    with pytest.raises(ViolationFound) as found:
        run(judge, *rows, precopy=moves)
    assert found.value.violation.kind == "column-outside-row"
    assert found.value.violation.summary.endswith(message)
