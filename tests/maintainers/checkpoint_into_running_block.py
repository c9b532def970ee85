"""checkpoint-into-running-block: no chunk exports its checkpoint into the block of its running state
(docs/reports/checkpoint-into-running-block.md).

In vLLM's tests: a scheduler of `create_scheduler` for a hybrid model with one draft, and
`compute_mamba_prefill_checkpoints` with what `MambaPrefillCheckpointBuilder` passes to it.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.kernels.targets.vllm.scheduling.checkpoints import Checkpoints
from harness.kernels.targets.vllm.scheduling.engine import Engine
from tests.maintainers.objects import MAMBA, Tables, add_request, computed_before, config, deliver

ISSUE = "checkpoint-into-running-block"
SIZE, PROMPT = 4, 19

CheckpointOf = Callable[[str, int, int], tuple[int, int]]
"""Offset in its row and column of a chunk's checkpoint, from its request, its end and its length."""


def check(engine: Engine, checkpoint_of: CheckpointOf) -> None:
    """A prompt in chunks of two blocks; the budget is two and a half."""
    add_request(engine, "a", range(PROMPT))
    tables = Tables(MAMBA)
    end = 0
    while end < PROMPT:
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


def run(suggested: bool) -> None:
    """The suggested rule: layers export a checkpoint only from the chunk for which the block manager keeps a block, the
    last one of the prefill."""
    settings = config(
        spec_method="draft_model", num_spec=1, block_size=SIZE, budget=10, retention=0, checkpoint_alignment=1
    )
    engine = Engine(settings)
    check(engine, Checkpoints(engine, need_blocks=suggested).of)
