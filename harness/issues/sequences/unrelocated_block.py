"""unrelocated-block: a step with a checkpoint inside leaves a speculative block where it is registered as a state."""

from __future__ import annotations

import types
from typing import Any

from harness.issues.change import Change
from harness.issues.engine_changes import managers_of
from harness.issues.sequence_issue import SequenceIssue, has_checkpoints, speculates
from harness.kernels.targets.vllm.scheduling.needed import Name
from harness.kernels.targets.vllm.scheduling.rewriting import rewritten

_RELOCATION = (
    ("if blocks_allocated and not checkpoint_block:", "if blocks_allocated:"),
    ("if block_idx < num_skipped_blocks:", "if block_idx < num_skipped_blocks - checkpoint_block:"),
)
_FIRST_ALLOCATION = (("if not blocks_allocated or checkpoint_block:", "if not blocks_allocated:"),)


def _relocate_at_checkpoints(engine: Any) -> None:
    for manager in managers_of(engine, engine.mamba_groups):
        kind = type(manager)
        allocate = rewritten(kind.allocate_new_blocks, (*_RELOCATION, *_FIRST_ALLOCATION))
        ask = rewritten(kind.get_num_blocks_to_allocate, _FIRST_ALLOCATION)
        if allocate is not None and ask is not None:
            manager.allocate_new_blocks = types.MethodType(allocate, manager)
            manager.get_num_blocks_to_allocate = types.MethodType(ask, manager)


ISSUE = SequenceIssue(
    name="unrelocated-block",
    summary="a step with a checkpoint inside leaves a speculative block where it is registered as a state (0.31)",
    report="docs/findings.md",
    since="0.31.0",
    until="0.32.0",
    reaches=lambda config: speculates(config) and has_checkpoints(config),
    fix="a step with a checkpoint inside moves speculative blocks on like any other, as in 0.32",
    change=Change(engine=_relocate_at_checkpoints),
    patches=(
        Name("vllm.v1.core.single_type_kv_cache_manager", "MambaManager.allocate_new_blocks"),
        Name("vllm.v1.core.single_type_kv_cache_manager", "MambaManager.get_num_blocks_to_allocate"),
    ),
    old_name="relocate-at-checkpoints",
)
