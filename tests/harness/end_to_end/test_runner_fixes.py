"""Fixes of a running engine, on stand-ins of its parts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.case.production_defaults import ProductionDefaults
from harness.end_to_end.inside import runner_fixes
from harness.end_to_end.inside.runner_fixes import RULES, differing
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
    assert {"left-out-row", "tail-behind-extend", "checkpoint-mid-block", "copy-of-fresh-block"} <= {
        issue.name for issue in reached
    }
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


def test_a_row_that_was_left_out_gets_its_count_back_and_a_resumed_one_does_not() -> None:
    batch = Batch(one=(5, 4), two=(5, 4))

    def update(output: Any) -> None:
        batch.req_ids = list(output.num_scheduled_tokens)
        batch.num_accepted_tokens_cpu[:] = 1

    view = view_of(batch, _update_states=update)
    RULES["keeps_accepted"](view)
    batch.num_accepted_tokens_cpu[:] = [3, 2]
    view.runner._update_states(scheduled({"two": 1}))
    assert batch.num_accepted_tokens_cpu.tolist()[0] == 1  # a row that stays is none of its business
    view.runner._update_states(scheduled({"two": 1, "one": 1}))
    assert dict(zip(batch.req_ids, batch.num_accepted_tokens_cpu.tolist(), strict=True))["one"] == 3
    batch.num_accepted_tokens_cpu[:] = 3
    view.runner._update_states(scheduled({"two": 1}))
    back = scheduled({"two": 1, "one": 1})
    back.scheduled_cached_reqs.resumed_req_ids = {"one"}
    view.runner._update_states(back)
    assert dict(zip(batch.req_ids, batch.num_accepted_tokens_cpu.tolist(), strict=True))["one"] == 1


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
