"""partial-entry-async: an asynchronous scheduler registers a running block for a prompt that it is past."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.issues.change import Change
from harness.issues.engine_changes import managers_of
from harness.issues.sequence_issue import SequenceIssue, has_partial_hits
from harness.kernels.targets.vllm.scheduling.needed import Name


def _tails_of_prompts(engine: Any) -> None:
    for manager in managers_of(engine, engine.mamba_groups):
        register = getattr(manager, "_cache_partial_tail_block", None)
        if register is not None:
            manager._cache_partial_tail_block = _of_prompts(register, getattr(manager, "_checkpoints", {}))


def _of_prompts(register: Callable[..., Any], checkpoints: dict[str, Any]) -> Callable[..., Any]:
    """`register`, except in a step past the prompt. Checkpoints of the step, which also get their keys there, stay."""

    def wrapped(request: Any, *arguments: Any, **named: Any) -> Any:
        if request.num_computed_tokens >= request.num_prompt_tokens and request.request_id not in checkpoints:
            return None
        return register(request, *arguments, **named)

    return wrapped


ISSUE = SequenceIssue(
    name="partial-entry-async",
    summary="an asynchronous scheduler registers a running block for a prompt that it is past (up to 0.31)",
    report="docs/findings.md",
    since="0.26.0",
    until="0.32.0",
    reaches=lambda config: has_partial_hits(config) and config.asynchronous,
    fix="a partial entry is registered only by a step that computes tokens of the prompt",
    change=Change(engine=_tails_of_prompts),
    patches=(Name("vllm.v1.core.single_type_kv_cache_manager", "MambaManager._cache_partial_tail_block"),),
    old_name="tails-of-prompts",
)
