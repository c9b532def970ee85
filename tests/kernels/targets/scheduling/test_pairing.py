"""A pair names a difference: vLLM's name of the value, the request, its row, and the value on either side."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harness.case.step_plan import PlannedRow, PostprocessInput, StartRow, StepPlan
from harness.kernels.targets.vllm.scheduling.runner_model import StepTiming
from harness.kernels.targets.vllm.scheduling.runner_pair import HostCodeDiffers, HostDifference, RunnerPair
from harness.kernels.targets.vllm.scheduling.runner_pair_v1 import RunnerPairV1
from harness.kernels.targets.vllm.scheduling.terms import term_of

ROWS = [
    PlannedRow(name, slot, 8, 1, 0, False, 1, 1, True, 0, -1, ([4, 5],), ([6],))
    for name, slot in (("request 4", 7), ("request 2", 9))
]
PLAN = StepPlan(rows=ROWS, starts=[StartRow(row.slot, 1, 1, 0, 1, 8, 1) for row in ROWS])


class Slotted(RunnerPair):
    """A pair whose requests have slots."""

    has_slots = True


def pair(kind: type[RunnerPair] = RunnerPair, **differences: Any) -> RunnerPair:
    """A pair whose host code has another plan."""
    sides = []
    for plan in (PLAN, replace(PLAN, **differences)):
        one = SimpleNamespace(begin=lambda *_, plan=plan: plan, fuses=True, rules=None)
        one.end = lambda outcome: [PostprocessInput("request 2", 9, 1, 8, 0, int(outcome[0]), 1, ([4],))]
        sides.append(one)
    return kind(*sides)


def found(workers: RunnerPair) -> HostDifference:
    with pytest.raises(HostCodeDiffers) as raised:
        workers.begin(None, StepTiming())
    return raised.value.difference


def test_a_field_of_a_row_is_reported_with_request_and_row() -> None:
    rows = [ROWS[0], ROWS[1]._replace(accepted=2)]
    assert found(pair(rows=rows)) == HostDifference(
        1, "request 2", "forward pass: accepted", "num_accepted_tokens of row 1", "2", "1"
    )
    assert found(pair(Slotted, rows=rows)).term == "num_accepted_tokens of row 1, slot 9"


def test_a_launch_whose_rows_name_no_request_is_reported_with_the_request() -> None:
    difference = found(pair(Slotted, starts=[PLAN.starts[0], PLAN.starts[1]._replace(bias=3)]))
    assert (difference.request, difference.what) == ("request 2", "advance: bias")
    assert difference.term == "token_bias of row 1, slot 9"


def test_what_concerns_the_batch_has_no_row() -> None:
    assert found(pair(rows=ROWS[:1])).term == "num_reqs"
    assert found(pair(zeroed=[3])).term == "new_block_ids_to_zero"


def test_after_the_forward_pass_rows_are_still_known() -> None:
    workers = pair()
    workers.begin(None, StepTiming())
    workers.host.end = lambda _: [PostprocessInput("request 2", 9, 1, 8, 0, 5, 1, ([4],))]
    with pytest.raises(HostCodeDiffers) as raised:
        workers.end([1])  # type: ignore[arg-type]
    assert raised.value.difference.term == "num_accepted_tokens of row 1"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("outputs, after the sampler", "len(output_token_ids)"),
        ("forward pass: rows", "num_reqs"),
        ("rows, before the forward pass", "req_id_to_index"),
        ("forward pass: state_column", "block_table_tensor at seq_lens"),
        ("postprocess: state_column", "mamba_state_idx"),
        ("forward pass: checkpoint_offset", "checkpoint_offset"),
    ],
)
def test_the_same_word_may_be_two_things(ours: str, theirs: str) -> None:
    assert term_of(ours) == theirs


@pytest.mark.parametrize(
    ("held", "should", "wanted"),
    [
        ({"request 2": 1}, {"request 2": 3}, ("request 2", "1", "3")),
        ({"request 2": 1}, {"request 2": 1, "request 5": 0}, ("request 5", "nothing", "0")),
        ([4, 6], [4, 5], ("request 2", "6", "5")),
        ([4], [4, 5], ("the batch", "[4]", "[4, 5]")),
    ],
)
def test_a_difference_in_v1_host_state_names_the_first_request(held: Any, should: Any, wanted: tuple[str, ...]) -> None:
    workers = object.__new__(RunnerPairV1)
    workers._rows, workers._step = ROWS, 1
    workers._same_of_each("outputs", should, should)
    with pytest.raises(HostCodeDiffers) as raised:
        workers._same_of_each("outputs", held, should)
    difference = raised.value.difference
    assert (difference.request, difference.host, difference.model) == wanted
