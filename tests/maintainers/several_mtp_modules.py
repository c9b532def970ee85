"""A chunk that is aligned, and then shortened for several MTP modules, gets no tokens for ever
(docs/reports/uncounted-draft-slots.md, "Related").

In vLLM's tests: a scheduler of `create_scheduler` for a hybrid model whose MTP drafter declares three modules
(`num_nextn_predict_layers`).
"""

from __future__ import annotations

from typing import Any
from unittest import mock

from harness.kernels.targets.vllm.scheduling import engine as engines
from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.loading import module
from tests.maintainers.objects import add_request, all_show, config, deliver

ISSUE = "uncounted-draft-slots"
SIZE, MODULES = 16, 3
STEPS = 20
"""More than any of these prompts needs."""


def make_engine(budget: int, suggested: bool, **settings: Any) -> Engine:
    made = engines.speculative_of

    def with_modules(*given: Any) -> Any:
        speculative = made(*given)
        speculative.draft_model_config.hf_config.num_nextn_predict_layers = MODULES
        return speculative

    usual = config(runner="V2", spec_method="mtp", num_spec=MODULES, block_size=SIZE, budget=budget, **settings)
    with mock.patch.object(engines, "speculative_of", with_modules):
        engine = Engine(usual)
    if suggested and hasattr(engine.scheduler, "_reserve_prefill_lookahead"):  # up to 0.27.1 nothing is reserved
        keep_aligned(engine.scheduler)
    return engine


def keep_aligned(scheduler: Any) -> None:
    """The suggested rule: a chunk that the reservation would end inside a block keeps its tokens."""
    reserve = scheduler._reserve_prefill_lookahead

    def reserve_aligned(request: Any, computed: int, tokens: int) -> int:
        reserved: int = reserve(request, computed, tokens)
        return reserved if (computed + reserved) % SIZE == 0 and reserved else tokens

    scheduler._reserve_prefill_lookahead = reserve_aligned


def finish(engine: Engine, name: str) -> None:
    """Run steps until all requests have ended. Each asks for one token."""
    for _ in range(STEPS):
        if not engine.scheduler.requests:
            return
        deliver(engine, engine.scheduler.schedule())
    computed = engine.scheduler.requests[name].num_computed_tokens
    raise AssertionError(f"after {STEPS} steps {computed} tokens are computed, and nothing is scheduled")


def check_budget_of_a_block(suggested: bool) -> None:
    """The budget is one block, and one token more is left."""
    engine = make_engine(SIZE, suggested)
    add_request(engine, "a", range(SIZE + 1))
    finish(engine, "a")


def check_rest_of_a_budget(suggested: bool) -> None:
    """The budget is ample, and a prompt in front leaves a block and one or two tokens of it."""
    engine = make_engine(100, suggested, retention=0, checkpoint_alignment=1)
    add_request(engine, "front", range(83))
    add_request(engine, "a", range(1000, 1000 + SIZE + 2))
    finish(engine, "a")


def run(suggested: bool) -> None:
    """Both cases, with the rule or without. The second needs prefills that do not stop before their last block, as
    those of layers with checkpoints since 0.31.0."""
    spec = module("vllm.v1.kv_cache_interface").MambaSpec
    if hasattr(spec, "prefill_checkpoint_alignment"):
        all_show((check_budget_of_a_block, check_rest_of_a_budget), suggested)
    else:
        check_budget_of_a_block(suggested)
