"""checkpoint-into-running-block: no chunk exports its checkpoint into the block of its running state
(docs/reports/checkpoint-into-running-block.md).

In vLLM's tests: a scheduler of `create_scheduler` for a hybrid model with one draft, and
`compute_mamba_prefill_checkpoints` with what `MambaPrefillCheckpointBuilder` passes to it.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.case.sequence import SequenceConfig
from harness.kernels.targets.vllm.scheduling.checkpoints import Checkpoints
from harness.kernels.targets.vllm.scheduling.engine import Engine
from tests.maintainers.objects import (
    MAMBA,
    Tables,
    add_request,
    add_request_with_items,
    all_show,
    computed_before,
    config,
    deliver,
    give_encoder,
)

ISSUE = "checkpoint-into-running-block"
SIZE = 4

CheckpointOf = Callable[[str, int, int], tuple[int, int]]
"""Offset in its row and column of a chunk's checkpoint, from its request, its end and its length."""


def run_prompt(engine: Engine, checkpoint_of: CheckpointOf, prompt: int) -> None:
    """Run the only request's prompt, chunk by chunk."""
    tables = Tables(MAMBA)
    end = 0
    while end < prompt:
        output = engine.scheduler.schedule()
        tables.update(output)
        tokens = output.num_scheduled_tokens["a"]
        end = computed_before(output)["a"] + tokens
        offset, column = checkpoint_of("a", end, tokens)
        running = -(-end // SIZE) - 1
        blocks = tables.blocks["a"]
        assert not offset or blocks[column] != blocks[running], (
            f"the chunk up to {end} exports to column {column} and ends in column {running}: both are {blocks[running]}"
        )
        deliver(engine, output)


def check(suggested: bool) -> None:
    """A prompt in chunks of two blocks; the budget is two and a half."""
    engine = Engine(settings(budget=10))
    add_request(engine, "a", range(19))
    run_prompt(engine, Checkpoints(engine, need_blocks=suggested).of, 19)


def check_items(suggested: bool) -> None:
    """A prompt with two multimodal items that take the encoder's budget, at a block's start and inside the second block
    after it. The second item waits for the next step, so the chunk ends in front of it. The token budget is ample."""
    engine = Engine(settings(budget=2048))
    give_encoder(engine, budget=4)
    add_request_with_items(engine, "a", range(30), [(1, 2), (4, 4), (11, 4)])
    run_prompt(engine, Checkpoints(engine, need_blocks=suggested).of, 30)


def settings(budget: int) -> SequenceConfig:
    return config(
        spec_method="draft_model", num_spec=1, block_size=SIZE, budget=budget, retention=0, checkpoint_alignment=1
    )


def run(suggested: bool) -> None:
    """The suggested rule: layers export a checkpoint only from the chunk for which the block manager keeps a block, the
    last one of the prefill."""
    all_show((check, check_items), suggested)
