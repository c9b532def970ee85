"""split-block-size: prefill chunks are aligned to the smallest block size of all groups, which is wrong if a drafter
has smaller blocks than the Mamba groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.issues.change import Change
from harness.issues.engine_changes import wrap_split
from harness.issues.sequence_issue import SPLIT, SequenceIssue, has_other_drafter_blocks


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


ISSUE = SequenceIssue(
    name="split-block-size",
    summary="prefill chunks are aligned to the smallest block size of all groups, not to that of the Mamba groups",
    report="https://github.com/vllm-project/vllm/pull/54076",
    since="0.28.0",
    until=None,
    reaches=has_other_drafter_blocks,
    fix="prefill chunks are aligned to the Mamba block size, whatever the smallest block size is",
    change=Change(engine=_split_in_mamba_blocks),
    patches=(SPLIT,),
)
