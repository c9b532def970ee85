"""Overruling is giving an engine what the CPU platform turns off, or what no tiny model is needed for.

The release decides about these when it makes its configuration; an engine of a sequence is made as the sequence says.
"""

from __future__ import annotations

from typing import Any

from harness.end_to_end.inside.replacing import Replacer
from harness.end_to_end.messages import EngineOptions


def overrule(config: Any, options: EngineOptions) -> None:
    """Change a configuration before the engine is made: asynchronous scheduling, and the drafting method."""
    if options.asynchronous:
        config.scheduler_config.async_scheduling = True
    if options.num_spec:
        config.speculative_config.method = options.spec_method


def mark_drafters_group(config: Any, caches: Any) -> Any:
    """The groups of the KV cache, as they are with a drafter that attends: its layer would be in the group of the
    model's attention, so that hits give up their last block there."""
    speculative = config.speculative_config
    if speculative is not None:
        drops = getattr(speculative, "use_eagle_block_drop", speculative.use_eagle)
        for group in caches.kv_cache_groups:
            if hasattr(group, "is_eagle_group"):
                group.is_eagle_group = bool(drops()) and not hasattr(group.kv_cache_spec, "mamba_type")
    return caches


def list_overruled(replacer: Replacer) -> None:
    """Name what is overruled, for reports."""
    replacer.note(
        "vllm.platforms.cpu.CpuPlatform: async_scheduling",
        "what the sequence asks for",
        "the CPU platform turns it off",
    )
    replacer.note(
        "vllm.config.SpeculativeConfig: method, and the KV-cache group that the drafter's attention would be in",
        "what the sequence asks for",
        "the drafter is scripted, and has no model",
    )
