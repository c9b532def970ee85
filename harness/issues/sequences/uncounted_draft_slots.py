"""uncounted-draft-slots: a prefill chunk is aligned as if it could take the whole token budget, of which a drafter
reserves slots. With a budget of hardly more than a block no chunk is long enough, and the request waits for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.case.sequence import SequenceConfig
from harness.issues.change import Change
from harness.issues.engine_changes import wrap_split
from harness.issues.sequence_issue import SPLIT, SequenceIssue
from harness.kernels.targets.vllm.bare import source_of


def _reaches(config: SequenceConfig) -> bool:
    """Whether a drafter of its own may leave less than a block of the budget; up to 0.26 it takes slots of all requests
    that there may be."""
    slots = config.requests * (config.num_spec + 1)
    return config.spec_method in ("draft_model", "dflash") and config.budget < config.block_size + slots


def _without_draft_slots(engine: Any) -> None:
    scheduler, drafter = engine.scheduler, engine.vllm_config.speculative_config
    if drafter is None:
        return
    if "draft_slots" not in source_of(type(scheduler).schedule):
        # What the release asks of the budget itself: it holds a block. (0.27 takes smaller ones as well.)
        least = min(engine.config.block_size, engine.config.budget)
        scheduler.max_num_scheduled_tokens = max(scheduler.max_num_scheduled_tokens, least)
        return
    largest = scheduler.max_num_scheduled_tokens - drafter.max_num_new_slots_for_drafting

    def rule(split: Callable[..., int], *arguments: Any) -> int:
        budget = scheduler.max_num_scheduled_tokens
        scheduler.max_num_scheduled_tokens = min(budget, largest)
        try:
            return int(split(*arguments))
        finally:
            scheduler.max_num_scheduled_tokens = budget

    wrap_split(engine, rule)


ISSUE = SequenceIssue(
    name="uncounted-draft-slots",
    summary="with a token budget of hardly a block a request is never scheduled, for a drafter's slots are not counted",
    report="docs/reports/uncounted-draft-slots.md",
    since="0.25.0",
    until=None,
    reaches=_reaches,
    fix="whether a prefill chunk can take a block depends on the budget without a drafter's slots; up to 0.26 these "
    "leave at least a block",
    change=Change(engine=_without_draft_slots),
    patches=(SPLIT,),
)
