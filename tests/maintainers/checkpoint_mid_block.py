"""checkpoint-mid-block: a prefix hit ends where a chunk ended (docs/reports/checkpoint-mid-block.md).

In vLLM's tests: a scheduler of `create_scheduler` for a hybrid model with `prefix_match_unit` below the block size.
"""

from __future__ import annotations

from harness.kernels.targets.vllm.scheduling.checkpoints import Checkpoints
from harness.kernels.targets.vllm.scheduling.engine import Engine
from tests.maintainers.objects import (
    MAMBA,
    SAMPLED,
    Tables,
    add_request,
    add_request_with_items,
    all_show,
    computed_before,
    config,
    deliver,
    give_encoder,
    switch_on,
)

ISSUE = "checkpoint-mid-block"
SIZE, UNIT = 8, 4
PREFIX = [*range(7), SAMPLED]
"""A block of tokens; after seven of them the model adds the eighth."""
WHOLE = [*PREFIX, *range(8, 17)]
ITEMS = ((1, 2), (4, 3))
"""Multimodal items of that block: first token and length."""


class Watched:
    """Runs steps, and keeps the blocks of one request and after how many tokens its states were stored."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine, self._name = engine, name
        self._checkpoint_of = Checkpoints(engine, need_blocks=True).of
        self._tables = Tables(MAMBA)
        self._stored: set[int] = set()

    def step(self) -> None:
        output = self._engine.scheduler.schedule()
        self._tables.update(output)
        computed = computed_before(output)
        if self._name in computed:
            tokens = output.num_scheduled_tokens[self._name]
            end = computed[self._name] + tokens
            offset, _ = self._checkpoint_of(self._name, end, tokens)
            self._stored |= {end} | ({computed[self._name] + offset} if offset else set())
        deliver(self._engine, output)

    def assert_hits_end_at_states(self, items: tuple[tuple[int, int], ...] = ()) -> None:
        """A request with the same block, and something else behind it, resumes where a state was stored."""
        assert max(self._stored, default=0) == len(WHOLE), f"the prompt was run up to {max(self._stored, default=0)}"
        other = add_request_with_items(self._engine, "other", [*PREFIX, *range(20, 30)], items)
        found, hit = self._engine.manager.get_computed_blocks(other)[:2]
        block = found.blocks[MAMBA][-1].block_id
        assert block not in self._tables.blocks[self._name] or hit in self._stored, (
            f"a request may resume after {hit} tokens from block {block} of another, which stored states after"
            f" {' and '.join(map(str, sorted(self._stored)))} tokens"
        )


def make_engine(suggested: bool, retention: int | None = 0, prefill_threshold: int = 0) -> Engine:
    """The suggested rule: a chunk that starts inside a block ends at the next boundary, with a checkpoint as well."""
    engine = Engine(
        config(
            block_size=SIZE,
            retention=retention,
            checkpoint_alignment=1,
            match_unit=UNIT,
            prefill_threshold=prefill_threshold,
        )
    )
    if suggested:
        switch_on(engine, ISSUE)
    return engine


def check_hit(suggested: bool) -> None:
    """The request starts behind a prefix hit that ends inside a block."""
    engine = make_engine(suggested)
    add_request(engine, "first", PREFIX[:7], outputs=2)
    watched = Watched(engine, "second")
    watched.step()
    add_request(engine, "second", WHOLE)
    for _ in range(3):
        watched.step()
    watched.assert_hits_end_at_states()


def check_threshold(suggested: bool) -> None:
    """A limit of chunks below a block, which no longer counts once the request is alone."""
    engine = make_engine(suggested, prefill_threshold=UNIT)
    add_request(engine, "before", [*PREFIX, *range(40, 50)])  # prefixes part behind the block: its state is to be kept
    deliver(engine, engine.scheduler.schedule())
    add_request(engine, "second", WHOLE)
    add_request(engine, "aborted", range(60, 77))
    watched = Watched(engine, "second")
    watched.step()
    engine.abort("aborted")
    for _ in range(2):
        watched.step()
    watched.assert_hits_end_at_states()


def check_items(suggested: bool) -> None:
    """Two multimodal items that take the encoder's budget: the second waits, so a chunk ends inside the first block.
    All states are kept."""
    engine = make_engine(suggested, retention=None)
    give_encoder(engine, budget=3)
    add_request_with_items(engine, "second", WHOLE, ITEMS)
    watched = Watched(engine, "second")
    for _ in range(3):
        watched.step()
    watched.assert_hits_end_at_states(ITEMS)


def run(suggested: bool) -> None:
    all_show((check_hit, check_threshold, check_items), suggested)
