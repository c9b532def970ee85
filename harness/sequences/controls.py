"""Controls are switches that change what a run drives: planted faults, and fixes of known issues.

A planted fault is a mistake that production code could make, made on purpose, so that a dead check is noticed. A fix
takes one issue out, to show that it is the only cause of a violation: a finding is not one before the same events were
run with the suspect rule switched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from harness.case.problem import InvalidCase
from harness.generators.sequences.configurations import Pins
from harness.sequences.fixes import ENGINE_FIXES
from harness.suggestions import unknown


class Fault(NamedTuple):
    """A planted fault: what it is, and the axes to run it on."""

    summary: str
    pins: Pins


FAULTS = {
    "chunk-off-grid": Fault(
        "a prefill chunk ends off the block grid",
        Pins(retention="dense", chunks=True, partial=False, checkpoints=False),
    ),
    "kept-columns": Fault("state columns of preempted requests are kept", Pins(tight=True, block_size=4)),
    "accepted-not-reset": Fault(
        "the accepted count is not reset when a state moves within its block",
        Pins(block_size=4, spec_method="mtp"),
    ),
    "plain-decode-row": Fault(
        "a decode row without drafts is treated as a plain one",
        Pins(spec_method="ngram", asynchronous=False),
    ),
    "other-block-size": Fault("a state column is seeded in another block size", Pins(retention="dense")),
}

FIXES = {
    "fresh-rows": "rows with placeholder drafts of requests of which nothing is computed decode from an empty state",
    "split-block-size": "prefill chunks are aligned to the Mamba block size, whatever the smallest block size is",
    "realign-chunks": "a chunk that starts inside a block ends at the next boundary, also with a checkpoint inside it",
    "export-with-block": "layers export a checkpoint only from the chunk for which the block manager keeps a block",
    "settled-counts": "an asynchronous V1 engine looks accepted counts up by request, not by row",
    "forget-unscheduled": "a request preempted in the step that scheduled it takes the blocks cached for it out again",
    "drained-queue": "a V1 worker takes the scheduler's counts as they are once all outputs were delivered",
    "keep-accepted": "a V1 row that was left out of a step finds its accepted count again",
    "zero-draft-rows": "a decode without drafts runs as a speculative row with none, as since 0.32",
    "padded-prompt-tails": "a V2 row that is one token and its padding runs as a decode, as since 0.30",
    "mamba-columns": "a V2 state column is seeded in Mamba blocks, whatever the smallest block size is, as since 0.32",
    "defer-fresh-sources": "a request waits whose partial hit would be copied from a block that this step fills",
    "tails-of-prompts": "a partial entry is registered only by a step that computes tokens of the prompt",
    "relocate-at-checkpoints": "a step with a checkpoint inside moves speculative blocks on like any other, as in 0.32",
    "whole-padding": "a one-token prompt whose padding would be cut is not padded, as since 0.29",
    "padding-below-limit": "a one-token prompt is padded only where the next token still fits, as since 0.29",
    "truncated-hits": "the blocks of every attention group end where the prefix hit ends, as since 0.29",
    "aligned-eagle-chunks": "up to 0.26, a chunk that starts inside a block ends at the next boundary",
    "discard-frames": "a forced reset discards as many outputs as are in flight, not as many tokens",
}


class Controls(msgspec.Struct, frozen=True, kw_only=True):
    """`faults` and `fixes` by name; a run narrows the fixes to those that its case can need. `check_entries` off leaves
    poisoned cache entries to whoever reads them.

    Raises InvalidCase for a name that does not exist.
    """

    faults: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    check_entries: bool = True

    def __post_init__(self) -> None:
        for kind, names, known in (("fault", self.faults, FAULTS), ("fix", self.fixes, FIXES)):
            for name in names:
                if name not in known:
                    raise InvalidCase(unknown(kind, [name], known))

    def apply(self, engine: Any, worker: Any) -> None:
        """Change one engine and its worker."""
        if "chunk-off-grid" in self.faults:
            _wrap_split(engine, lambda split, request, tokens, *hits: tokens)
        for fault in self.faults:
            worker.fault = fault
        if "split-block-size" in self.fixes:
            _wrap_split(engine, _with_mamba_block_size(engine))
        if "realign-chunks" in self.fixes:
            _wrap_split(engine, _realigned(engine))
        if "forget-unscheduled" in self.fixes:
            _forget_unscheduled(engine)
        for name, change in ENGINE_FIXES.items():
            if name in self.fixes:
                change(engine)
        if "keep-accepted" in self.fixes:
            worker.keeps_accepted = True
        if "settled-counts" in self.fixes:
            worker.settles_counts = True
        if "export-with-block" in self.fixes:
            worker.checkpoints.only_with_block = True
        if "fresh-rows" in self.fixes:
            worker.pads_fresh_rows = False
        if "zero-draft-rows" in self.fixes:
            worker.runs_zero_drafts_as_decodes = True
        if "padded-prompt-tails" in self.fixes:
            worker.runs_one_token_as_decode = True
        if "mamba-columns" in self.fixes:
            worker.seeds_mamba_columns = True


def _wrap_split(engine: Any, rule: Callable[..., int]) -> None:
    """Let `rule` decide how prefill chunks are cut; it gets production's function first."""
    scheduler = engine.scheduler
    split = scheduler._mamba_block_aligned_split
    scheduler._mamba_block_aligned_split = lambda request, tokens, *hits, **named: rule(
        split, request, tokens, *hits, *named.values()
    )


def _with_mamba_block_size(engine: Any) -> Callable[..., int]:
    cache, size = engine.scheduler.cache_config, engine.config.block_size

    def rule(split: Callable[..., int], *arguments: Any) -> int:
        smallest = cache.block_size
        cache.block_size = size
        try:
            return int(split(*arguments))
        finally:
            cache.block_size = smallest

    return rule


def _realigned(engine: Any) -> Callable[..., int]:
    """Only a chunk that may export a checkpoint, the last of a prefill: whatever else passes a boundary is another
    issue."""
    size = engine.config.block_size

    def rule(split: Callable[..., int], request: Any, tokens: int, *hits: int) -> int:
        found = int(split(request, tokens, *hits))
        start = int(request.num_computed_tokens) + sum(hits)
        prefill_end = max(request.num_prompt_tokens, request.num_tokens - 1)
        if not start < prefill_end <= start + tokens or start % size == 0:
            return found
        grid: int = size - start % size
        return min(found, grid)

    return rule


def _forget_unscheduled(engine: Any) -> None:
    """Evict what was cached for tokens of a request that are not computed once it is preempted."""
    scheduler, manager = engine.scheduler, engine.manager
    preempt = scheduler._preempt_request

    def wrapped(request: Any, *arguments: Any, **named: Any) -> None:
        computed = request.num_computed_tokens
        blocks = {
            block.block_id
            for group in manager.get_blocks(request.request_id).blocks
            for block in group
            if block.block_hash is not None and (getattr(block, "block_hash_num_tokens", None) or 0) > computed
        }
        preempt(request, *arguments, **named)
        if blocks:
            manager.evict_blocks(blocks)

    scheduler._preempt_request = wrapped
