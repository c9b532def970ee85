"""preempted-while-scheduled: a request is preempted in the step that scheduled it, and its blocks stay cached."""

from __future__ import annotations

from typing import Any

from harness.issues.change import Change
from harness.issues.sequence_issue import SequenceIssue
from harness.kernels.targets.vllm.scheduling.needed import Name


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


ISSUE = SequenceIssue(
    name="preempted-while-scheduled",
    summary="a request that is scheduled and then preempted in one step leaves blocks cached that are never computed",
    report="https://github.com/vllm-project/vllm/issues/57580",
    since="0.25.0",
    until=None,
    reaches=lambda config: config.policy == "priority",
    fix="a request preempted in the step that scheduled it takes the blocks cached for it out again",
    change=Change(engine=_forget_unscheduled),
    patches=(
        Name("vllm.v1.core.sched.scheduler", "Scheduler._preempt_request"),
        Name("vllm.v1.core.kv_cache_manager", "KVCacheManager.get_blocks"),
        Name("vllm.v1.core.kv_cache_manager", "KVCacheManager.evict_blocks"),
    ),
    old_name="forget-unscheduled",
)
