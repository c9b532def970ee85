"""checkpoint-mid-block: a prefix hit ends where a chunk ended (docs/reports/checkpoint-mid-block.md).

In vLLM's tests: a scheduler of `create_scheduler` for a hybrid model with `prefix_match_unit` below the block size.
"""

from __future__ import annotations

from harness.kernels.targets.vllm.scheduling.checkpoints import Checkpoints
from harness.kernels.targets.vllm.scheduling.engine import Engine
from tests.maintainers.objects import MAMBA, SAMPLED, Tables, add_request, computed_before, config, deliver, switch_on

ISSUE = "checkpoint-mid-block"


def check(engine: Engine) -> None:
    """Requests with one prefix: 7 tokens of it, to which the model adds the eighth; 17 of it; 8 of it and something
    else."""
    prefix = [*range(7), SAMPLED]
    add_request(engine, "first", prefix[:7], outputs=2)
    tables = Tables(MAMBA)
    checkpoint_of = Checkpoints(engine, need_blocks=True).of
    stored: set[int] = set()
    for step in range(3):
        output = engine.scheduler.schedule()
        tables.update(output)
        for name, computed in computed_before(output).items():
            if name == "second":
                tokens = output.num_scheduled_tokens[name]
                offset, _ = checkpoint_of(name, computed + tokens, tokens)
                stored |= {computed + tokens} | ({computed + offset} if offset else set())
        deliver(engine, output)
        if step == 0:
            add_request(engine, "second", [*prefix, *range(8, 17)])
    assert stored, "the second request was never scheduled"
    third = add_request(engine, "third", [*prefix, *range(20, 30)])
    found, hit = engine.manager.get_computed_blocks(third)[:2]
    block = found.blocks[MAMBA][-1].block_id
    assert block not in tables.blocks["second"] or hit in stored, (
        f"the third request may resume after {hit} tokens from block {block} of the second, which stored states after"
        f" {' and '.join(map(str, sorted(stored)))} tokens"
    )


def run(suggested: bool) -> None:
    """The suggested rule: a chunk that starts inside a block ends at the next boundary, with a checkpoint as well."""
    engine = Engine(config(retention=0, checkpoint_alignment=1, match_unit=4))
    if suggested:
        switch_on(engine, ISSUE)
    check(engine)
