"""untruncated-hit: where a prefix hit ends early, a drafter's attention group keeps the blocks behind it."""

from __future__ import annotations

from typing import Any

from harness.issues.change import Change
from harness.issues.engine_changes import managers_of
from harness.issues.sequence_issue import SequenceIssue
from harness.kernels.targets.vllm.bare import source_of
from harness.kernels.targets.vllm.scheduling.needed import Name

_FIRST_GROUP_ALONE = "first_group = self.attention_groups[0]"
"""In a release that truncates the blocks of one group."""


def _truncate_every_hit(engine: Any) -> None:
    """Since 0.29 the blocks of every attention group end where the hit ends, not only those of the first group."""
    groups = engine.attention_groups
    if len(groups) < 2:
        return
    coordinator = engine.manager.coordinator
    find = coordinator.find_longest_cache_hit
    if _FIRST_GROUP_ALONE not in source_of(type(coordinator).find_longest_cache_hit):
        return
    sizes = [manager.block_size for manager in managers_of(engine, groups)]

    def find_longest_cache_hit(*arguments: Any, **named: Any) -> Any:
        blocks, hit, *rest = find(*arguments, **named)
        for group, size in zip(groups, sizes, strict=True):
            del blocks[group][-(-hit // size) :]
        return blocks, hit, *rest

    coordinator.find_longest_cache_hit = find_longest_cache_hit


ISSUE = SequenceIssue(
    name="untruncated-hit",
    summary="a drafter's attention group keeps blocks past the end of a prefix hit, and writes into them (0.28)",
    report="https://github.com/vllm-project/vllm/pull/52828",
    since="0.28.0",
    until="0.29.0",
    reaches=lambda config: config.drafter_block_size is not None,
    fix="the blocks of every attention group end where the prefix hit ends, as since 0.29",
    change=Change(engine=_truncate_every_hit),
    patches=(Name("vllm.v1.core.kv_cache_coordinator", "HybridKVCacheCoordinator.find_longest_cache_hit"),),
    old_name="truncated-hits",
)
