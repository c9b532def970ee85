"""The model of the V2 runner, without a release: its result for a scheduler's output, by its rules."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harness.case.step_plan import MoveRow
from harness.kernels.targets.vllm.scheduling import runner_model_v2
from harness.kernels.targets.vllm.scheduling.rules import ColumnUnit, MarkedRows, RunnerRules
from harness.kernels.targets.vllm.scheduling.runner_model import StepTiming

RULES = RunnerRules(zero_drafts=True, padded_tails=True)
BLOCK, SMALLEST, DRAFTS = 8, 2, 2


@pytest.fixture(autouse=True)
def batch_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the release's function: as scheduled."""
    monkeypatch.setattr(runner_model_v2, "_batch_order", lambda engine: lambda tokens, drafts: list(tokens))


def model(rules: RunnerRules = RULES) -> runner_model_v2.RunnerModelV2:
    engine: Any = SimpleNamespace(
        config=SimpleNamespace(requests=2, block_size=BLOCK, num_spec=DRAFTS, checkpoint_alignment=None),
        kv_cache_config=SimpleNamespace(kv_cache_groups=[None, None]),
        mamba_groups=(1,),
        attention_groups=(0,),
        vllm_config=SimpleNamespace(cache_config=SimpleNamespace(block_size=SMALLEST)),
    )
    return runner_model_v2.RunnerModelV2(engine, rules)


def output(
    *new: tuple[str, int, int],
    scheduled: dict[str, int],
    drafts: dict[str, list[int]] | None = None,
    cached: dict[str, int] | None = None,
    gone: set[str] | frozenset[str] = frozenset(),
    preempted: set[str] | None = None,
) -> Any:
    """A scheduler's output; new requests are (name, tokens of the prefill, tokens computed)."""
    cached = cached or {}
    return SimpleNamespace(
        finished_req_ids=set(gone),
        preempted_req_ids=preempted,
        scheduled_new_reqs=[
            SimpleNamespace(
                req_id=name,
                prefill_token_ids=list(range(prefill)),
                num_computed_tokens=computed,
                block_ids=([1, 2, 3, 4], [5, 6, 7, 8]),
            )
            for name, prefill, computed in new
        ],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=list(cached), num_computed_tokens=list(cached.values()), new_block_ids=[None] * len(cached)
        ),
        total_num_scheduled_tokens=sum(scheduled.values()),
        num_scheduled_tokens=scheduled,
        scheduled_spec_decode_tokens=drafts or {},
    )


def begin(made: runner_model_v2.RunnerModelV2, given: Any) -> Any:
    return made.begin(given, StepTiming())


def test_a_state_moves_to_the_column_of_the_last_scheduled_token() -> None:
    made = model()
    plan = begin(made, output(("a", 20, 8), scheduled={"a": 8}))
    assert [row.slot for row in plan.rows] == [1], "slots are taken from the end"
    assert plan.precopy == [MoveRow("a", 1, 0, 1, 0, ([5, 6, 7, 8],))]
    assert plan.starts[0][:3] == (1, 0, 1)


def test_what_was_rejected_is_computed_again_and_the_bias_is_what_was_accepted() -> None:
    made = model()
    begin(made, output(("a", 5, 0), scheduled={"a": 5}))
    made.end({"a": (1, [50])})
    made.finish_step({"a": (1, [50])}, {"a": 1})
    begin(made, output(scheduled={"a": 3}, drafts={"a": [1, 2]}, cached={"a": 5}))
    (postprocess,) = made.end({"a": (2, [51, 52])})
    assert (postprocess.computed, postprocess.scheduled, postprocess.drafts, postprocess.accepted) == (5, 3, 2, 2)
    made.finish_step({"a": (2, [51, 52])}, {"a": 2})
    plan = begin(made, output(scheduled={"a": 3}, drafts={"a": [1, 2]}, cached={"a": 8}))
    assert (plan.rows[0].computed, plan.starts[0].bias) == (7, 1)
    assert plan.precopy == [MoveRow("a", 1, 0, 1, 1, ([5, 6, 7, 8],))]
    assert plan.rows[0].accepted == 1, "a state that has moved has nothing left to skip"


@pytest.mark.parametrize(("resets", "bias"), [(True, 0), (False, 1)])
def test_the_runner_keeps_what_postprocess_leaves_of_an_accepted_count(resets: bool, bias: int) -> None:
    made = model(replace(RULES, resets_accepted=resets))
    begin(made, output(("a", 5, 0), scheduled={"a": 5}))
    made.end({"a": (2, [50, 51])})
    made.finish_step({"a": (2, [50, 51])}, {"a": 1})
    plan = begin(made, output(scheduled={"a": 1}, cached={"a": 6}))
    assert plan.starts[0].bias == bias


@pytest.mark.parametrize(("unit", "column"), [(ColumnUnit.MAMBA, 0), (ColumnUnit.SMALLEST, 3), (ColumnUnit.HALF, 1)])
def test_a_column_is_seeded_in_blocks_of_the_unit(unit: ColumnUnit, column: int) -> None:
    made = model(replace(RULES, column_unit=unit))
    plan = begin(made, output(("a", 20, 8), scheduled={"a": 1}))
    assert plan.starts[0].source == column


@pytest.mark.parametrize(("forgets", "source"), [(True, -1), (False, 1)])
def test_a_preempted_request_leaves_no_column_behind(forgets: bool, source: int) -> None:
    made = model(replace(RULES, forgets_columns=forgets))
    begin(made, output(("a", 20, 0), scheduled={"a": 12}))
    plan = begin(made, output(("a", 20, 0), scheduled={"a": 4}, preempted={"a"}))
    assert plan.starts[0].source == source


@pytest.mark.parametrize("in_order", [True, False])
def test_slots_of_requests_that_leave_are_free_in_the_order_of_their_names(in_order: bool) -> None:
    made = model(replace(RULES, removes_in_order=in_order))
    begin(made, output(("a", 4, 0), ("b", 4, 0), scheduled={"a": 4, "b": 4}))
    gone = ("b", "a")  # a set has an order, but not always this one
    plan = begin(made, SimpleNamespace(**{**vars(output(("c", 4, 0), scheduled={"c": 4})), "finished_req_ids": gone}))
    assert plan.rows[0].slot == (0 if in_order else 1)


def speculative(given: Any, *steps: tuple[Any, int], **rules: bool) -> bool:
    """Whether the one row of the last output runs as a decode of drafts."""
    made = model(replace(RULES, **rules))
    for before, kept in steps:
        begin(made, before)
        made.end({"a": (kept, [50] * kept)})
        made.finish_step({"a": (kept, [50] * kept)}, {"a": kept})
    (row,) = begin(made, given).rows
    return bool(row.speculative)


def test_which_rows_run_as_decodes_of_drafts_follows_the_rules() -> None:
    prompt = (output(("a", 4, 0), scheduled={"a": 4}), 1)
    decode = output(scheduled={"a": 1}, cached={"a": 4})
    assert speculative(decode, prompt)
    assert not speculative(decode, prompt, zero_drafts=False)
    drafted = output(scheduled={"a": 3}, drafts={"a": [1, 2]}, cached={"a": 4})
    assert speculative(drafted, prompt, zero_drafts=False)
    chunk = (output(("a", 5, 0), scheduled={"a": 4}), 0)
    tail = output(scheduled={"a": 3}, drafts={"a": [-1, -1]}, cached={"a": 4})
    assert speculative(tail, chunk)
    assert not speculative(tail, chunk, padded_tails=False)
    fresh = output(("a", 1, 0), scheduled={"a": 3}, drafts={"a": [-1, -1]})
    assert not speculative(fresh)
    assert speculative(fresh, fresh_rows_start_empty=True)
    assert not speculative(output(("a", 9, 0), scheduled={"a": 4})), "a chunk of a prompt"


def test_drafts_are_those_of_requests_that_sampled_last() -> None:
    made = model()
    begin(made, output(("a", 4, 0), ("b", 9, 0), scheduled={"a": 4, "b": 4}))
    outcome = {"a": (1, [50]), "b": (0, [])}
    made.end(outcome)
    made.finish_step(outcome, {"a": 1, "b": 1})
    assert (made.has_drafts_of("a"), made.has_drafts_of("b")) == (True, False)


@pytest.mark.parametrize(
    ("marked", "words"),
    [
        (MarkedRows.ONE_TOKEN, [-1, -1, 2, -1]),
        (MarkedRows.PAST_PREFILL, [-1, -1, 2, -1]),
        (MarkedRows.SHORT, [-1, -1, 2, 0]),
    ],
)
def test_the_words_of_either_family_follow_the_release(marked: MarkedRows, words: list[int]) -> None:
    """Rows: a prefill, a short chunk of one, a decode with drafts, and one without."""
    made = model(replace(RULES, marked_rows=marked, flags_tails=True))
    found = []
    for given in (
        output(("a", 10, 0), scheduled={"a": 5}),
        output(scheduled={"a": 3}, cached={"a": 5}),
        output(("b", 4, 4), scheduled={"b": 3}, drafts={"b": [1, 2]}),
        output(scheduled={"b": 1}, cached={"b": 7}),
    ):
        begin(made, given)
        found += made.words
        outcome = dict.fromkeys((row.request for row in made._rows), (1, [1]))
        made.end(outcome)
        made.finish_step(outcome, dict.fromkeys(outcome, 1))
    assert [word.drafts for word in found] == words
    assert [word.prefilling for word in found] == [True, True, False, False]


def test_the_last_token_of_a_prompt_is_no_prefill_where_the_host_code_says_so() -> None:
    for flags in (False, True):
        made = model(replace(RULES, flags_tails=flags))
        begin(made, output(("a", 10, 9), scheduled={"a": 3}, drafts={"a": [1, 2]}))
        assert made.words == [(not flags, 2 if flags else -1)]
