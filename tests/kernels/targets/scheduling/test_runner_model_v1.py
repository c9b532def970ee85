"""The model of the V1 runner, without a release: which accepted and computed counts a row gets, by its rules."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.case.step_plan import PlannedRow, StepPlan
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules
from harness.kernels.targets.vllm.scheduling.runner_model_v1 import RunnerModelV1

ROWS = 4


def model(asynchronous: bool = True, **rules: bool) -> RunnerModelV1:
    """A model between two steps: the first had the requests a, b and c, in rows 0, 1 and 2."""
    made = object.__new__(RunnerModelV1)
    made.config = SimpleNamespace(asynchronous=asynchronous, num_spec=2, layers="mamba2")  # type: ignore[assignment]
    made.rules = RunnerRules(zero_drafts=True, padded_tails=True, **rules)
    made.batch = SimpleNamespace(
        num_accepted_tokens_cpu=np.array([1, 2, 3, 9]),
        prev_req_id_to_index={"a": 0, "b": 1, "c": 2},
        req_id_to_index={"c": 0, "b": 1},
    )
    made._accepted_last, made._accepted_of = {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2, "c": 3, "old": 2}
    return made


def gathered(made: RunnerModelV1, *names: str) -> list[int]:
    made._gather_accepted(list(names))
    counts: list[int] = made.batch.num_accepted_tokens_cpu[: len(names)].tolist()
    return counts


def test_counts_stay_in_their_rows_where_no_rule_looks_them_up() -> None:
    assert gathered(model(), "c", "b") == [1, 2], "c has the count of a, in whose row it is now"
    assert gathered(model(asynchronous=False, counts_by_previous_row=True), "c", "b") == [1, 2]


def test_counts_are_looked_up_in_the_rows_of_the_step_before() -> None:
    assert gathered(model(counts_by_previous_row=True), "c", "b", "new") == [3, 2, 1]


@pytest.mark.parametrize(("keeps", "old"), [(False, 1), (True, 2)])
def test_counts_are_looked_up_by_request(keeps: bool, old: int) -> None:
    assert gathered(model(counts_by_request=True, keeps_accepted=keeps), "c", "old", "new") == [3, old, 1]


def test_a_row_that_was_left_out_finds_its_count_unless_it_was_resumed() -> None:
    for resumed, count in ((set(), 3), ({"c"}, 1)):
        made = model(keeps_accepted=True)
        output = SimpleNamespace(scheduled_new_reqs=[], scheduled_cached_reqs=SimpleNamespace(resumed_req_ids=resumed))
        made._restore_accepted({"b"}, output)
        assert made.batch.num_accepted_tokens_cpu.tolist() == [count, 2, 3, 9]


def test_computed_tokens_are_corrected_by_what_rows_with_drafts_accepted() -> None:
    made = model()
    made._runner = SimpleNamespace(
        use_async_spec_decode=True, prev_num_draft_tokens=SimpleNamespace(np=np.array([2, 0, 2, 0]))
    )
    made._previous_counts, made._previous_computed = [1, 1, 3], [10, 20, 30]
    assert made._computed_on_device(["c", "b", "new"], [99, 21, 5]) == [33, 21, 5]
    made._runner.use_async_spec_decode = False
    assert made._computed_on_device(["c"], [99]) == [99]


@pytest.mark.parametrize(("resets", "landing"), [(True, [1, 1]), (False, [2, 3])])
def test_counts_on_their_way_to_the_host_are_those_that_postprocess_left(resets: bool, landing: list[int]) -> None:
    made = model(resets_accepted=resets)
    tokens = np.zeros((ROWS, 20), dtype=np.int32)
    made._names, made._samples, made._context = ["a", "b"], [True, False], SimpleNamespace()  # type: ignore[assignment]
    made._previous_counts = [2, 0]
    made._runner = SimpleNamespace(requests={name: SimpleNamespace(output_token_ids=[]) for name in "ab"})
    made.batch = SimpleNamespace(
        num_tokens_no_spec=np.array([4, 6, 0, 0]), token_ids_cpu=tokens, is_token_ids=np.zeros((ROWS, 20), dtype=bool)
    )
    made.finish_step({"a": (2, [50, 51]), "b": (3, [])}, {"a": 1, "b": 1})
    assert made._landing == landing
    assert made.batch.prev_req_id_to_index == {"a": 0}, "of requests that sampled"
    assert made._runner.requests["a"].output_token_ids == [-1], "an asynchronous host knows no token yet"
    assert made._runner.requests["b"].output_token_ids == []
    assert (made.has_drafts_of("a"), made.has_drafts_of("b")) == (True, False)


def test_scheduled_counts_are_trusted_once_all_outputs_are_delivered() -> None:
    made = model()
    state: Any = SimpleNamespace(prev_num_draft_len=2)
    made._runner = SimpleNamespace(requests={"a": state})
    made._trust_counts()
    assert state.prev_num_draft_len == 0


def test_layers_of_mamba2_see_the_rows_that_the_host_counts_as_prefills() -> None:
    made = model(recomputed_as_decodes=True)
    made.checkpoints = SimpleNamespace(of=lambda *_: (0, -1))  # type: ignore[assignment]
    made.batch = SimpleNamespace(num_computed_tokens_cpu=np.array([22, 8]), num_prompt_tokens=np.array([20, 20]))
    rows = [
        PlannedRow(name, i, computed, 2, 0, False, 1, 0, True, 0, -1, ([1],), ([2],))
        for i, (name, computed) in enumerate((("a", 22), ("b", 8)))
    ]
    plan = StepPlan(rows=list(rows))
    made.as_layers_run(plan)
    assert [row.speculative for row in plan.rows] == [True, False], "a computes outputs again, b its prompt"
    made.config.layers = "gated-delta-net"  # type: ignore[misc]
    others = StepPlan(rows=list(rows))
    made.as_layers_run(others)
    assert others.rows == rows, "gated delta nets run rows as they are planned"
