"""copy-of-fresh-block: a partial hit is copied from tokens that are computed (docs/reports/copy-of-fresh-block.md).

In vLLM's tests: a scheduler of `create_scheduler` for a hybrid model with `prefix_match_unit` below the block size.
"""

from __future__ import annotations

from typing import Any

from harness.kernels.targets.vllm.scheduling.engine import Engine
from tests.maintainers.objects import Tables, add_request, computed_before, config, deliver, switch_on

ISSUE = "copy-of-fresh-block"
ATTENTION, SIZE = 0, 12


def copies_of_unwritten_tokens(output: Any, tables: Tables) -> list[str]:
    """The copies of a step that take tokens which the same step computes; copies run first."""
    started = computed_before(output)
    found = []
    for copy in output.kv_cache_block_copies or ():
        for taker in [name for name, blocks in tables.blocks.items() if copy.dst_block_id in blocks]:
            column, hit = tables.blocks[taker].index(copy.dst_block_id), started.get(taker, 0)
            for writer, computed in started.items():
                blocks = tables.blocks[writer]
                filled = column < len(blocks) and blocks[column] == copy.src_block_id
                if writer != taker and filled and computed < hit:
                    found.append(
                        f"{taker} takes {hit} tokens, the last from block {copy.src_block_id}, and this step computes"
                        f" those from {computed} on in {writer}"
                    )
    return found


def check(engine: Engine) -> None:
    """The first prompt leaves a Mamba state after 74 tokens. Then two arrive together: one that computes all of its
    prompt anew, as for prompt logprobs, and one that shares 90 tokens with it."""
    tables = Tables(ATTENTION)

    def step() -> list[str]:
        output = engine.scheduler.schedule()
        tables.update(output)
        found = copies_of_unwritten_tokens(output, tables)
        deliver(engine, output)
        return found

    add_request(engine, "first", range(75))
    for _ in range(4):
        assert not step()
    add_request(engine, "writer", range(97)).skip_reading_prefix_cache = True
    add_request(engine, "taker", [*range(90), *range(200, 220)])
    for _ in range(3):
        found = step()
        assert not found, found[0]
    assert "taker" in tables.blocks


def run(suggested: bool) -> None:
    """The suggested rule: a request waits for a step if its partial hit lies in a block that this step fills, as the
    block managers of Mamba have it."""
    engine = Engine(config(runner="V1", block_size=SIZE, match_unit=2))
    if suggested:
        switch_on(engine, ISSUE)
    check(engine)
