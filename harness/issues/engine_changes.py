"""Helpers that changes of an engine share: finding its block managers, and replacing parts of its scheduler."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from harness.kernels.targets.vllm.bare import source_of
from harness.kernels.targets.vllm.scheduling.rewriting import rewritten


def managers_of(engine: Any, groups: tuple[int, ...]) -> list[Any]:
    """The block managers of some KV-cache groups."""
    managers = engine.manager.coordinator.single_type_managers
    return [managers[group] for group in groups]


def wrap_split(engine: Any, rule: Callable[..., int]) -> None:
    """Let `rule` decide how prefill chunks are cut; its first argument is production's function."""
    scheduler = engine.scheduler
    split = scheduler._mamba_block_aligned_split
    scheduler._mamba_block_aligned_split = lambda request, tokens, *hits, **named: rule(
        split, request, tokens, *hits, *named.values()
    )


def to_block_end(start: int, size: int) -> int:
    """Tokens from `start` to the end of its block."""
    return size - start % size


def rewrite_schedule(engine: Any, exchange: tuple[str, str]) -> bool:
    """Replace text of the scheduler's main function, on top of earlier replacements. Returns whether it was there."""
    schedule = rewritten(engine.scheduler.schedule.__func__, (exchange,))
    if schedule is not None:
        engine.scheduler.schedule = types.MethodType(schedule, engine.scheduler)
    return schedule is not None


def pads_as_before_0_29(engine: Any) -> bool:
    """Whether the scheduler pads a one-token prompt with drafts by the rule that 0.29 replaced."""
    return source_of(type(engine.scheduler).schedule).count("pad_spec_decode = False") == 1
