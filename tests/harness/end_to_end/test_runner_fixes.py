"""Fixes of a running engine, on stand-ins of its parts."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from harness.case.production_defaults import ProductionDefaults
from harness.end_to_end.inside import runner_fixes
from harness.end_to_end.inside.late_counts import LandingEvent
from harness.end_to_end.inside.runner_fixes import RULES, EngineView, differing
from harness.end_to_end.recipe import EngineRecipe, LayerFacts, engine_sequence_at
from harness.issues.registry import SEQUENCE_ISSUES
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules

NEWEST = RunnerRules(zero_drafts=True, padded_tails=True, recomputed_as_decodes=True)
"""The rules of 0.33.0 that fixes change."""


def test_every_issue_that_a_drawn_sequence_can_reach_has_a_form() -> None:
    recipe = EngineRecipe(1, defaults=None, layers={"mamba2": LayerFacts(4, 1)})
    cases = [engine_sequence_at(recipe, index) for index in range(80)]
    assert isinstance(recipe.defaults, ProductionDefaults | None)
    reached = [issue for issue in SEQUENCE_ISSUES if any(issue.reached_by(case) for case in cases)]
    assert {
        "left-out-row",
        "tail-behind-extend",
        "checkpoint-mid-block",
        "copy-of-fresh-block",
        "async-accepted-counts",
        "drained-queue",
    } <= {issue.name for issue in reached}
    for issue in reached:
        assert set(differing(NEWEST, issue.change.rules(NEWEST))) <= set(RULES), issue.name
    assert set(RULES) <= set(NEWEST.__dataclass_fields__)


class Batch:
    """Rows of a batch: computed and prompt tokens, accepted counts."""

    def __init__(self, **rows: tuple[int, int]) -> None:
        self.req_ids = list(rows)
        self.num_reqs = len(rows)
        self.num_computed_tokens_cpu = np.array([computed for computed, _ in rows.values()])
        self.num_prompt_tokens = np.array([prompt for _, prompt in rows.values()])
        self.num_accepted_tokens_cpu = np.ones(len(rows), dtype=int)

    @property
    def req_id_to_index(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.req_ids)}

    def swap(self, one: int, other: int) -> None:
        self.req_ids[one], self.req_ids[other] = self.req_ids[other], self.req_ids[one]
        for values in (self.num_computed_tokens_cpu, self.num_prompt_tokens):
            values[[one, other]] = values[[other, one]]


def view_of(batch: Batch, **functions: Any) -> Any:
    return SimpleNamespace(runner=SimpleNamespace(input_batch=batch, **functions), undo=[])


def scheduled(tokens: dict[str, int], drafts: dict[str, int] | None = None) -> Any:
    return SimpleNamespace(
        num_scheduled_tokens=tokens,
        scheduled_spec_decode_tokens={name: [0] * count for name, count in (drafts or {}).items()},
        finished_req_ids=set(),
        scheduled_cached_reqs=SimpleNamespace(resumed_req_ids=set()),
    )


def prefilling(batch: Batch) -> dict[str, bool]:
    return dict(zip(batch.req_ids, batch.num_computed_tokens_cpu < batch.num_prompt_tokens, strict=True))


@pytest.mark.parametrize(
    ("rule", "changed"), [("cuts_off_tails", {"tail": False}), ("recomputed_as_decodes", {"again": True})]
)
def test_rows_are_sorted_by_another_end_of_the_prompt_and_keep_their_own(rule: str, changed: dict[str, bool]) -> None:
    batch = Batch(chunk=(5, 20), tail=(9, 10), again=(12, 8), decode=(12, 8))
    lengths = dict(zip(batch.req_ids, batch.num_prompt_tokens.tolist(), strict=True))
    plain = prefilling(batch)
    seen: list[dict[str, bool]] = []

    def sort(output: Any) -> None:
        seen.append(prefilling(batch))
        batch.swap(0, 3)

    def build() -> None:
        seen.append(prefilling(batch))

    view = view_of(batch, _may_reorder_batch=sort, _build_attention_metadata=build)
    RULES[rule](view)
    view.runner._may_reorder_batch(
        scheduled({"chunk": 2, "tail": 3, "again": 2, "decode": 3}, {"tail": 2, "decode": 2})
    )
    view.runner._build_attention_metadata()
    assert seen[0] == plain | changed
    assert seen[1] == (plain if rule == "cuts_off_tails" else plain | changed)  # layers know tails by themselves
    assert {name: int(batch.num_prompt_tokens[row]) for name, row in batch.req_id_to_index.items()} == lengths


class Runner:
    """A runner whose steps keep as many tokens of each row as `run` says, and whose other rows are not in the batch."""

    def __init__(self, late: bool = False) -> None:
        self.input_batch = Batch()
        self.num_accepted_tokens_event: Any = None
        self.corrected: list[str] = []
        self._late = late

    def _update_states(self, output: Any) -> Any:
        """Rows of new and returned requests have a count of 1; others take their counts with them."""
        batch, kept = self.input_batch, self.counts
        batch.req_ids = list(output.num_scheduled_tokens)
        batch.num_accepted_tokens_cpu = np.array([kept.get(name, 1) for name in batch.req_ids])
        return lambda: self.corrected.extend(batch.req_ids)

    def _prepare_inputs(self) -> str:
        if self.num_accepted_tokens_event is not None:
            self.num_accepted_tokens_event.synchronize()
        return "prepared"

    def _update_states_after_model_execute(self, tokens: Any, output: Any) -> None:
        counts = torch.tensor([int(row) for row in tokens])
        host = torch.from_numpy(self.input_batch.num_accepted_tokens_cpu)
        if self._late:
            self.num_accepted_tokens_event = LandingEvent(host, counts)
        else:
            host[: len(counts)] = counts

    @property
    def counts(self) -> dict[str, int]:
        """The accepted counts that the batch has, by request."""
        return dict(zip(self.input_batch.req_ids, self.input_batch.num_accepted_tokens_cpu.tolist(), strict=True))

    def step(self, output: Any, kept: dict[str, int]) -> dict[str, int]:
        """One step, whose rows keep so many tokens. Returns the counts with which they start."""
        corrections = self._update_states(output)
        if corrections is not None:
            corrections()
        if output.num_scheduled_tokens:
            assert self._prepare_inputs() == "prepared"
        started = self.counts
        if output.num_scheduled_tokens:
            self._update_states_after_model_execute(np.array([kept[name] for name in self.input_batch.req_ids]), output)
        return started


def fixed(runner: Runner, *rules: str) -> Runner:
    """With these rules switched on."""
    engine = SimpleNamespace(
        runner=runner,
        core=SimpleNamespace(vllm_config=None),
        scheduler=SimpleNamespace(kv_cache_manager=None),
        facts=lambda: SimpleNamespace(groups=()),
    )
    view = EngineView(engine, None)  # type: ignore[arg-type]
    for rule in rules:
        RULES[rule](view)
    return runner


BOTH = scheduled({"one": 1, "two": 1})
ONE = scheduled({"one": 1})
TWO = scheduled({"two": 1})


def test_a_row_that_was_left_out_gets_its_count_back_and_a_resumed_one_does_not() -> None:
    kept = {"one": 3, "two": 2}
    assert Runner().step(BOTH, kept) == {"one": 1, "two": 1}
    runner = fixed(Runner(), "keeps_accepted")
    assert runner.step(BOTH, kept) == {"one": 1, "two": 1}
    assert runner.step(TWO, kept) == {"two": 2}
    assert runner.step(BOTH, kept) == {"one": 3, "two": 2}
    runner.step(TWO, kept)
    back = scheduled({"two": 1, "one": 1})
    back.scheduled_cached_reqs.resumed_req_ids = {"one"}
    assert runner.step(back, kept) == {"one": 1, "two": 2}


def test_a_request_that_ends_leaves_no_count_to_its_name() -> None:
    runner = fixed(Runner(), "keeps_accepted", "counts_by_request")
    runner.step(BOTH, {"one": 3, "two": 2})
    ended = scheduled({"two": 1})
    ended.finished_req_ids = {"one"}
    runner.step(ended, {"two": 2})
    assert runner.step(BOTH, {"one": 3, "two": 2}) == {"one": 1, "two": 2}


@pytest.mark.parametrize("late", [False, True])
def test_counts_are_those_of_the_request_where_rows_have_changed(late: bool) -> None:
    """A copy that lands late brings the counts of rows that are others by then."""
    runner = fixed(Runner(late), "counts_by_request")
    runner.step(BOTH, {"one": 3, "two": 2})
    assert runner.step(scheduled({"two": 1, "one": 1}), {"one": 1, "two": 4}) == {"two": 2, "one": 3}
    assert runner.step(scheduled({"new": 1, "two": 1}), {"new": 2, "two": 2}) == {"new": 1, "two": 4}


def test_without_that_a_late_copy_lands_in_the_rows_of_others() -> None:
    runner = Runner(late=True)
    runner.step(BOTH, {"one": 3, "two": 2})
    swapped = scheduled({"two": 1, "one": 1})
    corrections = runner._update_states(swapped)
    assert corrections is not None
    runner.num_accepted_tokens_event = LandingEvent(
        torch.from_numpy(runner.input_batch.num_accepted_tokens_cpu), torch.tensor([3, 2])
    )
    runner._prepare_inputs()
    assert runner.counts == {"two": 3, "one": 2}


@pytest.mark.parametrize("keeps", [False, True])
def test_counts_by_request_keep_those_of_left_out_rows_with_the_other_fix_alone(keeps: bool) -> None:
    rules = ("keeps_accepted", "counts_by_request") if keeps else ("counts_by_request",)
    runner = fixed(Runner(), *rules)
    kept = {"one": 3, "two": 2}
    runner.step(BOTH, kept)
    runner.step(TWO, kept)
    assert runner.step(BOTH, kept) == {"one": 3 if keeps else 1, "two": 2}


def test_counts_are_corrected_while_a_step_is_in_flight_and_not_after_the_last_was_delivered() -> None:
    runner = Runner()
    queue: deque[str] = deque()
    engine = SimpleNamespace(
        runner=runner,
        core=SimpleNamespace(vllm_config=None, batch_queue=queue),
        scheduler=SimpleNamespace(kv_cache_manager=None),
        facts=lambda: SimpleNamespace(groups=()),
    )
    RULES["trusts_delivered_counts"](EngineView(engine, None))  # type: ignore[arg-type]
    queue.append("a step whose output is not delivered")
    runner.step(ONE, {"one": 1})
    assert runner.corrected == ["one"]
    queue.clear()
    runner.step(ONE, {"one": 1})
    assert runner.corrected == ["one"]


def test_a_checkpoint_without_a_block_is_declined_until_the_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = SimpleNamespace(compute_mamba_prefill_checkpoints=lambda lengths, **_: ([4] * len(lengths), [1, 2]))
    monkeypatch.setattr(runner_fixes.importlib, "import_module", lambda name: checkpoint)
    manager = SimpleNamespace(_checkpoints={"second": object()})
    batch = Batch(decode=(9, 4), first=(5, 20), second=(5, 20))
    view = SimpleNamespace(
        runner=SimpleNamespace(input_batch=batch),
        manager=SimpleNamespace(coordinator=SimpleNamespace(single_type_managers=[None, manager])),
        mamba_groups=(1,),
        undo=[],
    )
    before = checkpoint.compute_mamba_prefill_checkpoints
    RULES["checkpoints_need_blocks"](view)
    assert checkpoint.compute_mamba_prefill_checkpoints([9, 9]) == ([0, 4], [-1, 2])
    for undo in view.undo:
        undo()
    assert checkpoint.compute_mamba_prefill_checkpoints is before
