"""checkpoint-mid-block: a chunk that starts inside a block and exports a checkpoint passes the block's end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.issues.change import Change
from harness.issues.engine_changes import to_block_end, wrap_split
from harness.issues.sequence_issue import SPLIT, SequenceIssue, has_checkpoints


def _realign_chunks(engine: Any) -> None:
    """Only for a chunk that may export a checkpoint, the last of a prefill: any other that passes a boundary is another
    issue."""
    size = engine.config.block_size

    def rule(split: Callable[..., int], request: Any, tokens: int, *hits: int) -> int:
        found = int(split(request, tokens, *hits))
        start = int(request.num_computed_tokens) + sum(hits)
        prefill_end = max(request.num_prompt_tokens, request.num_tokens - 1)
        if not start < prefill_end <= start + tokens or start % size == 0:
            return found
        return min(found, to_block_end(start, size))

    wrap_split(engine, rule)


ISSUE = SequenceIssue(
    name="checkpoint-mid-block",
    summary="a chunk that starts inside a block and exports a checkpoint passes the block's end; the block is cached",
    report="docs/reports/checkpoint-mid-block.md",
    since="0.31.0",
    until=None,
    reaches=has_checkpoints,
    fix="a chunk that starts inside a block ends at the next boundary, also with a checkpoint inside it",
    change=Change(engine=_realign_chunks),
    patches=(SPLIT,),
    old_name="realign-chunks",
)
