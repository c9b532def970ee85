"""copy-of-fresh-block: a partial hit is copied from tokens that are computed (docs/reports/copy-of-fresh-block.md).

In vLLM's tests: a scheduler of `create_scheduler` for a hybrid model with `prefix_match_unit` below the block size.
"""

from __future__ import annotations

from harness.kernels.targets.vllm.scheduling.engine import Engine
from tests.maintainers.objects import Tables, add_request, computed_before, config, deliver, switch_on

ISSUE = "copy-of-fresh-block"
ATTENTION, SIZE = 0, 12


def check(engine: Engine) -> None:
    """Four prompts with one prefix, which arrive while others of them prefill in chunks of a block."""
    arrivals = {0: (27, 75), 1: (97,), 6: (98,)}
    tables = Tables(ATTENTION)
    copied = 0
    for step in range(9):
        for length in arrivals.get(step, ()):
            add_request(engine, f"prompt of {length}", range(length))
        output = engine.scheduler.schedule()
        tables.update(output)
        started = computed_before(output)
        for copy in output.kv_cache_block_copies or ():
            takers = [name for name, blocks in tables.blocks.items() if copy.dst_block_id in blocks]
            for taker in takers:
                column, hit = tables.blocks[taker].index(copy.dst_block_id), started.get(taker, 0)
                for writer, computed in started.items():
                    blocks = tables.blocks[writer]
                    if writer != taker and column < len(blocks) and blocks[column] == copy.src_block_id:
                        copied += 1
                        assert computed >= hit, (
                            f"{taker} takes {hit} tokens, the last from block {copy.src_block_id}, and this step"
                            f" computes those from {computed} on in {writer}: copies run first"
                        )
        deliver(engine, output)
    assert copied or engine.scheduler.num_waiting_requests == 0


def run(suggested: bool) -> None:
    """The suggested rule: a request waits for a step if its partial hit lies in a block that this step fills, as the
    block managers of Mamba have it."""
    settings = config(runner="V2", block_size=SIZE, retention=0, match_unit=2, prefill_threshold=12, requests=4)
    engine = Engine(settings)
    if suggested:
        switch_on(engine, ISSUE)
    check(engine)
