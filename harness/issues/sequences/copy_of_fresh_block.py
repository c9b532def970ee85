"""copy-of-fresh-block: a partial hit is copied from an attention block that gets its content in the same step."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from harness.issues.change import Change
from harness.issues.engine_changes import managers_of
from harness.issues.sequence_issue import SequenceIssue, has_partial_hits
from harness.kernels.targets.vllm.scheduling.needed import Name


def _defer_fresh_sources(engine: Any) -> None:
    """Let a request wait if its partial hit lies in an attention block that gets its content in this very step.

    Mamba managers of a release do the same in the same way: they ask for more blocks than there are.
    """
    for manager in managers_of(engine, engine.attention_groups):
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
    """An argument given by position or by name. (Binding a signature at every call would cost a tenth of a run.)"""
    return arguments[position] if position < len(arguments) else named[name]


_PATCHES = tuple(
    Name("vllm.v1.core.single_type_kv_cache_manager", f"SingleTypeKVCacheManager.{name}")
    for name in ("get_num_blocks_to_allocate", "cache_blocks", "new_step_starts")
)

ISSUE = SequenceIssue(
    name="copy-of-fresh-block",
    summary="a partial hit is copied from an attention block that another request fills in the same step",
    report="docs/reports/copy-of-fresh-block.md",
    since="0.26.0",
    until=None,
    reaches=has_partial_hits,
    fix="a request waits whose partial hit would be copied from a block that this step fills",
    change=Change(engine=_defer_fresh_sources),
    patches=_PATCHES,
    old_name="defer-fresh-sources",
)
