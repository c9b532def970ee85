"""Fixes change an engine and its worker: each takes one known issue out, and does nothing else.

Some are the rule of a later release, others the least that makes the issue go away. Where a release has not the
function that a fix changes, it has not the issue either, and stays as it is.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from harness.kernels.targets.vllm.bare import source_of
from harness.kernels.targets.vllm.scheduling.rewriting import rewritten


def _managers(engine: Any, groups: tuple[int, ...]) -> list[Any]:
    managers = engine.manager.coordinator.single_type_managers
    return [managers[group] for group in groups]


def _defer_fresh_sources(engine: Any) -> None:
    """Requests wait whose partial hit lies in an attention block that gets its content in this very step.

    Mamba managers of a release do the same, and in the same way: they ask for more blocks than there are.
    """
    for manager in _managers(engine, engine.attention_groups):
        names = _parameters(type(manager).get_num_blocks_to_allocate)
        if "num_local_computed_tokens" in names:
            _defer_in(manager, names.index("new_computed_blocks"), names.index("num_local_computed_tokens"))


@functools.cache
def _parameters(method: Any) -> list[str]:
    """Parameters of a method, without the first."""
    return list(inspect.signature(method).parameters)[1:]


def _defer_in(manager: Any, hit_blocks: int, hit_tokens: int) -> None:
    """`hit_blocks` and `hit_tokens` are positions of arguments."""
    fresh: set[int] = set()
    ask, cache, start = manager.get_num_blocks_to_allocate, manager.cache_blocks, manager.new_step_starts

    def cache_blocks(request: Any, *arguments: Any, **named: Any) -> None:
        known = manager.num_cached_block.get(request.request_id, 0)
        cache(request, *arguments, **named)
        fresh.update(block.block_id for block in manager.req_to_blocks[request.request_id][known:])

    def get_num_blocks_to_allocate(*arguments: Any, **named: Any) -> int:
        hits = _argument(arguments, named, hit_blocks, "new_computed_blocks")
        if not hits or hits[-1].block_id not in fresh:
            return int(ask(*arguments, **named))
        if _argument(arguments, named, hit_tokens, "num_local_computed_tokens") % manager.block_size:
            return int(manager.block_pool.num_gpu_blocks) + 1
        return int(ask(*arguments, **named))

    def new_step_starts() -> None:
        fresh.clear()
        start()

    manager.cache_blocks = cache_blocks
    manager.get_num_blocks_to_allocate = get_num_blocks_to_allocate
    manager.new_step_starts = new_step_starts


def _argument(arguments: tuple[Any, ...], named: dict[str, Any], position: int, name: str) -> Any:
    """An argument that may be given either way. (Binding a signature at every call would be a tenth of a run.)"""
    return arguments[position] if position < len(arguments) else named[name]


def _tails_of_prompts(engine: Any) -> None:
    for manager in _managers(engine, engine.mamba_groups):
        register = getattr(manager, "_cache_partial_tail_block", None)
        if register is not None:
            manager._cache_partial_tail_block = _of_prompts(register, getattr(manager, "_checkpoints", {}))


def _of_prompts(register: Callable[..., Any], checkpoints: dict[str, Any]) -> Callable[..., Any]:
    """`register`, except in a step past the prompt; checkpoints of the step, which it gives their keys too, stay."""

    def wrapped(request: Any, *arguments: Any, **named: Any) -> Any:
        if request.num_computed_tokens >= request.num_prompt_tokens and request.request_id not in checkpoints:
            return None
        return register(request, *arguments, **named)

    return wrapped


_RELOCATION = (
    ("if blocks_allocated and not checkpoint_block:", "if blocks_allocated:"),
    ("if block_idx < num_skipped_blocks:", "if block_idx < num_skipped_blocks - checkpoint_block:"),
)
_FIRST_ALLOCATION = (("if not blocks_allocated or checkpoint_block:", "if not blocks_allocated:"),)


def _relocate_at_checkpoints(engine: Any) -> None:
    for manager in _managers(engine, engine.mamba_groups):
        kind = type(manager)
        allocate = rewritten(kind.allocate_new_blocks, (*_RELOCATION, *_FIRST_ALLOCATION))
        ask = rewritten(kind.get_num_blocks_to_allocate, _FIRST_ALLOCATION)
        if allocate is not None and ask is not None:
            manager.allocate_new_blocks = types.MethodType(allocate, manager)
            manager.get_num_blocks_to_allocate = types.MethodType(ask, manager)


def _unpadded(last_argument: str, indent: int) -> tuple[str, str]:
    """The end of the call that cuts a new request's tokens, in the words of a release; with 0.29's rule behind it."""
    space = " " * indent
    cut = f"{last_argument},\n{space})\n{space}if num_new_tokens == 0:\n{space}    break\n"
    rule = f"{space}if pad_spec_decode and num_new_tokens != 1 + self.num_spec_tokens:\n"
    return cut, f"{cut}{rule}{space}    num_new_tokens, pad_spec_decode = 1, False\n"


_CUTS = (
    _unpadded("    num_external_computed_tokens", 20),
    _unpadded("    num_external_computed_tokens", 16),
    _unpadded("    num_uncached_common_prefix_tokens", 16),
)

_PADS = "and (scheduled_running_reqs and not prefill_scheduled)\n"
_PAST_LIMIT = (
    _PADS,
    f"{_PADS} and num_computed_tokens + 1 + self.num_spec_tokens "
    "+ getattr(self, 'num_sampled_tokens_per_step', 1) <= self.max_model_len\n",
)
"""The last condition for padding; with 0.29's behind it."""


def _pads_as_before_0_29(engine: Any) -> bool:
    return source_of(type(engine.scheduler).schedule).count("pad_spec_decode = False") == 1


def _rewrite_schedule(engine: Any, exchange: tuple[str, str]) -> bool:
    """Exchange words of the scheduler's main function, on top of what was exchanged before; whether they were there."""
    schedule = rewritten(engine.scheduler.schedule.__func__, (exchange,))
    if schedule is not None:
        engine.scheduler.schedule = types.MethodType(schedule, engine.scheduler)
    return schedule is not None


def _whole_padding(engine: Any) -> None:
    """Since 0.29 a row whose padding would be cut is not padded."""
    if _pads_as_before_0_29(engine):
        any(_rewrite_schedule(engine, cut) for cut in _CUTS)


def _padding_below_limit(engine: Any) -> None:
    """Since 0.29 a row is padded only if the padding and the token sampled after it fit the model's length."""
    if _pads_as_before_0_29(engine):
        _rewrite_schedule(engine, _PAST_LIMIT)


def _truncate_every_hit(engine: Any) -> None:
    """Since 0.29 the blocks of every attention group end where the hit ends, not those of the first group alone."""
    groups = engine.attention_groups
    if len(groups) < 2:
        return
    coordinator = engine.manager.coordinator
    find = coordinator.find_longest_cache_hit
    sizes = [manager.block_size for manager in _managers(engine, groups)]

    def find_longest_cache_hit(*arguments: Any, **named: Any) -> Any:
        blocks, hit, *rest = find(*arguments, **named)
        for group, size in zip(groups, sizes, strict=True):
            del blocks[group][-(-hit // size) :]
        return blocks, hit, *rest

    coordinator.find_longest_cache_hit = find_longest_cache_hit


def _align_eagle_chunks(engine: Any) -> None:
    """A chunk that starts inside a block ends at the block's end, where a release up to 0.26 cuts the chunks.

    There the last two blocks of a prompt are not cut on the grid if the drafter drops a block. Later releases know
    where the prefill ends, and have not this issue.
    """
    scheduler = engine.scheduler
    size: int = engine.config.block_size
    cuts = type(scheduler)._mamba_block_aligned_split
    if "prefill_end" in source_of(cuts):
        return
    signature = inspect.signature(cuts)
    split = scheduler._mamba_block_aligned_split

    def wrapped(request: Any, *arguments: Any, **named: Any) -> int:
        found = int(split(request, *arguments, **named))
        said = signature.bind(scheduler, request, *arguments, **named).arguments
        hits = said.get("num_new_local_computed_tokens", 0) + said.get("num_external_computed_tokens", 0)
        start = int(request.num_computed_tokens + hits)
        if start >= max(request.num_prompt_tokens, request.num_tokens - 1) or start % size == 0:
            return found
        grid: int = size - start % size
        return min(found, grid)

    scheduler._mamba_block_aligned_split = wrapped


def wrap_split(engine: Any, rule: Callable[..., int]) -> None:
    """Let `rule` decide how prefill chunks are cut; it gets production's function first."""
    scheduler = engine.scheduler
    split = scheduler._mamba_block_aligned_split
    scheduler._mamba_block_aligned_split = lambda request, tokens, *hits, **named: rule(
        split, request, tokens, *hits, *named.values()
    )


def _split_in_mamba_blocks(engine: Any) -> None:
    cache, size = engine.scheduler.cache_config, engine.config.block_size

    def rule(split: Callable[..., int], *arguments: Any) -> int:
        smallest = cache.block_size
        cache.block_size = size
        try:
            return int(split(*arguments))
        finally:
            cache.block_size = smallest

    wrap_split(engine, rule)


def _realign_chunks(engine: Any) -> None:
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

    wrap_split(engine, rule)


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


Change = Callable[[Any, Any], None]
"""Of an engine and its worker."""


def _engine(change: Callable[[Any], None]) -> Change:
    return lambda engine, worker: change(engine)


def _worker(name: str, value: bool) -> Change:
    """A switch of our model of the runner, or of what the layers do, which has it where the issue can be."""
    *path, attribute = name.split(".")
    return lambda engine, worker: setattr(functools.reduce(getattr, path, worker), attribute, value)


CHANGES: dict[str, Change] = {
    "split-block-size": _engine(_split_in_mamba_blocks),
    "realign-chunks": _engine(_realign_chunks),
    "forget-unscheduled": _engine(_forget_unscheduled),
    "defer-fresh-sources": _engine(_defer_fresh_sources),
    "tails-of-prompts": _engine(_tails_of_prompts),
    "whole-padding": _engine(_whole_padding),
    "padding-below-limit": _engine(_padding_below_limit),
    "truncated-hits": _engine(_truncate_every_hit),
    "aligned-eagle-chunks": _engine(_align_eagle_chunks),
    "relocate-at-checkpoints": _engine(_relocate_at_checkpoints),
    "keep-accepted": _worker("keeps_accepted", True),
    "settled-counts": _worker("settles_counts", True),
    "export-with-block": _worker("checkpoints.only_with_block", True),
    "fresh-rows": _worker("pads_fresh_rows", False),
    "zero-draft-rows": _worker("runs_zero_drafts_as_decodes", True),
    "padded-prompt-tails": _worker("runs_one_token_as_decode", True),
    "tails-before-extends": _worker("cuts_off_tails", False),
    "recomputed-as-prefills": _worker("runs_recomputed_as_decodes", False),
    "mamba-columns": _worker("seeds_mamba_columns", True),
}
"""By the name of the fix, in the order in which they are made: each wraps what those before it made of a function.
`drained-queue` and `discard-frames` change neither, but how a run goes about its steps."""
