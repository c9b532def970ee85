"""Mamba2 rows: which rows of a V1 batch its layers run as decodes, independent of the worker's plan."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harness.case.step_plan import PlannedRow, StepPlan
from harness.kernels.targets.vllm.scheduling.mamba2_rows import run_as_mamba2
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules

DRAFTS = 3
PROMPT = 20
DECODE = (24, 4, 3)
RECOMPUTED = (22, 2, 0)
SHORT_CHUNK = (8, 2, 0)
LONG_CHUNK = (4, 8, 0)
TAIL = (PROMPT - 1, 4, 3)


def planned(*rows: tuple[int, int, int]) -> StepPlan:
    """As the worker plans them: rows of (computed, scheduled, drafts) tokens, speculative if all but one are drafts."""
    return StepPlan(
        rows=[
            PlannedRow(f"request {i}", i, *row, row[2] == row[1] - 1, 1, 0, True, 0, -1, ([1],), ([2],))
            for i, row in enumerate(rows)
        ]
    )


RULES = RunnerRules(zero_drafts=False, padded_tails=True, recomputed_as_decodes=True, cuts_off_tails=True)


def run(plan: StepPlan, rules: RunnerRules = RULES, fresh_as_planned: bool = False) -> None:
    prefilling = [row.computed < PROMPT for row in plan.rows]
    checkpoints: Any = SimpleNamespace(of=lambda request, end, scheduled: (1, 7))
    run_as_mamba2(plan, rules, DRAFTS + 1, prefilling, checkpoints, fresh_as_planned=fresh_as_planned)


def speculative(*rows: tuple[int, int, int], **rules: bool) -> list[bool]:
    plan = planned(*rows)
    run(plan, replace(RULES, **rules))
    return [row.speculative for row in plan.rows]


@pytest.mark.parametrize("drafted", [True, False])
def test_a_few_recomputed_outputs_are_a_decode_where_the_layers_see_drafts(drafted: bool) -> None:
    assert speculative(*[DECODE] * drafted, RECOMPUTED)[-1] is drafted
    assert speculative(RECOMPUTED, zero_drafts=True) == [True]
    assert speculative(DECODE, RECOMPUTED, recomputed_as_decodes=False) == [True, False]


def test_more_outputs_than_a_decode_has_and_chunks_of_a_prompt_are_prefills() -> None:
    assert speculative(DECODE, (22, DRAFTS + 2, 0), SHORT_CHUNK, LONG_CHUNK) == [True, False, False, False]


def test_a_padded_last_token_of_a_prompt_is_a_decode_only_before_all_prefills() -> None:
    assert speculative(DECODE, TAIL, SHORT_CHUNK) == [True, True, False]
    assert speculative(DECODE, SHORT_CHUNK, TAIL) == [True, False, False]
    assert speculative(DECODE, TAIL, TAIL) == [True, True, True]
    assert speculative(DECODE, SHORT_CHUNK, TAIL, cuts_off_tails=False) == [True, False, True]
    assert speculative(DECODE, TAIL, padded_tails=False) == [True, False]


def test_single_tokens_stay_as_planned() -> None:
    rows = (DECODE, (24, 1, 0), (8, 1, 0), SHORT_CHUNK, (0, 1, 0))
    assert speculative(*rows) == [row.speculative for row in planned(*rows).rows]
    assert speculative(*rows, recomputed_as_decodes=False) == [row.speculative for row in planned(*rows).rows]


def test_a_fresh_row_that_is_padded_with_drafts_is_a_prefill_where_layers_are_known() -> None:
    fresh = (0, 4, 3)
    assert speculative(DECODE, fresh) == [True, False]
    assert speculative(DECODE, fresh, fresh_rows_start_empty=True) == [True, True]
    assert speculative(DECODE, fresh, TAIL) == [True, False, False]
    plan = planned(DECODE, fresh)
    run(plan, fresh_as_planned=True)
    assert [row.speculative for row in plan.rows] == [True, True]


def test_without_the_issue_the_resumed_row_alone_changes() -> None:
    fixed = speculative(DECODE, RECOMPUTED, DECODE, TAIL, recomputed_as_decodes=False)
    assert fixed == [True, False, True, True]
    assert speculative(DECODE, RECOMPUTED, DECODE, TAIL) == [True, True, True, True]


def test_a_row_that_becomes_a_prefill_exports_checkpoints_and_one_that_becomes_a_decode_does_not() -> None:
    plan = planned(DECODE, RECOMPUTED, SHORT_CHUNK, TAIL)
    plan.rows[1] = plan.rows[1]._replace(checkpoint_offset=1, checkpoint_column=3)
    run(plan)
    assert [(row.checkpoint_offset, row.checkpoint_column) for row in plan.rows] == [(0, -1), (0, -1), (0, -1), (1, 7)]
