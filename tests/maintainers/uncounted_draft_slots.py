"""uncounted-draft-slots: with a budget of one block a prompt of one block is scheduled
(docs/reports/uncounted-draft-slots.md).

In vLLM's tests: a scheduler of `create_scheduler` for a hybrid model with a draft model.
"""

from __future__ import annotations

from harness.kernels.targets.vllm.scheduling.engine import Engine
from tests.maintainers.objects import add_request, config, switch_on

ISSUE = "uncounted-draft-slots"
SIZE = 16


def check(engine: Engine) -> None:
    """One request, and nothing else in the engine."""
    add_request(engine, "a", range(SIZE))
    output = engine.scheduler.schedule()
    assert output.total_num_scheduled_tokens > 0, "nothing is scheduled, and nothing runs: the next step is the same"


def run(suggested: bool) -> None:
    """The suggested rule: whether a chunk can take a block is asked of the budget without the drafter's slots."""
    engine = Engine(config(spec_method="draft_model", num_spec=1, block_size=SIZE, budget=SIZE))
    if suggested:
        switch_on(engine, ISSUE)
    check(engine)
