"""What counts as a difference between an engine and a symbolic run, and which sequences are compared."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.case.sequence import Add, Pause, Segment, SequenceCase, SequenceConfig, Step
from harness.case.step_row import StepRow
from harness.end_to_end.agreement import Compared, as_an_engine_is, first_difference

ROW = StepRow(
    request=3,
    slot=0,
    computed=40,
    scheduled=3,
    drafts=2,
    accepted=2,
    state_column=1,
    move=(0, 1),
    attention=((1, 2),),
    mamba=((0, 5, 6),),
)


def test_the_same_steps_agree_and_are_counted() -> None:
    compared = Compared()
    assert first_difference([[ROW], [ROW]], [[ROW], [ROW]], False, compared) is None
    assert (compared.steps, compared.rows, compared.cells, compared.drafts, compared.accepted) == (2, 2, 10, 4, 2)


def test_counts_add_up() -> None:
    compared = Compared(steps=1, rows=2, cells=3, drafts=4, accepted=5)
    compared.add(Compared(steps=10, rows=20, cells=30, drafts=40, accepted=50))
    assert compared == Compared(steps=11, rows=22, cells=33, drafts=44, accepted=55)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("slot", 1),
        ("computed", 39),
        ("scheduled", 2),
        ("drafts", 1),
        ("accepted", 1),
        ("state_column", 0),
        ("move", None),
        ("attention", ((1, 3),)),
        ("mamba", ((0, 5),)),
    ],
)
def test_every_number_is_compared(field: str, value: Any) -> None:
    other = msgspec.structs.replace(ROW, **{field: value})
    found = first_difference([[ROW], [ROW]], [[ROW], [other]], False, Compared())
    assert found is not None
    assert (found.step, found.field, found.request, found.symbolic) == (1, field, 3, value)


def test_moves_that_the_engine_cannot_tell_are_not_compared() -> None:
    assert first_difference([[msgspec.structs.replace(ROW, move=())]], [[ROW]], False, Compared()) is None


def test_other_requests_and_other_numbers_of_steps_are_differences() -> None:
    other = msgspec.structs.replace(ROW, request=4)
    assert first_difference([[ROW]], [[other]], False, Compared()) is not None
    assert first_difference([[ROW], [ROW]], [[ROW]], False, Compared()) is not None
    assert first_difference([[ROW], [ROW]], [[ROW]], True, Compared()) is None  # the symbolic run stopped there
    assert first_difference([[ROW]], [[ROW], [ROW]], True, Compared()) is not None


def sequence(*more: Any, **changes: Any) -> SequenceCase:
    fields: dict[str, Any] = {
        "runner": "V1",
        "block_size": 32,
        "spec_method": "mtp",
        "num_spec": 2,
        "drafter_block_size": 16,
        "length_limit": 64,
        "budget": 64,
        "requests": 2,
        "num_blocks": 64,
    }
    add = Add(request=0, prompt=(Segment(family=0, length=9),), outputs=3)
    return SequenceCase(config=SequenceConfig(**{**fields, **changes}), events=(add, Step(), *more))


def test_sequences_get_what_an_engine_has() -> None:
    config = next(as_an_engine_is(sequence())).config
    assert (config.layers, config.drafter_block_size, config.vocabulary) == ("mamba2", None, 64)


@pytest.mark.parametrize(
    "case",
    [
        sequence(layers="kda"),
        sequence(spec_method="dflash"),
        sequence(Add(request=1, prompt=(Segment(family=0, length=9),), outputs=3, resumable=True)),
    ],
)
def test_what_no_engine_has_is_left_out(case: SequenceCase) -> None:
    assert list(as_an_engine_is(case)) == []


def test_a_sleep_is_the_pause_that_schedules_alike() -> None:
    (case,) = as_an_engine_is(sequence(Pause(mode="keep", level=1)))
    assert case.events[-1] == Pause(mode="keep", clear_cache=True)
