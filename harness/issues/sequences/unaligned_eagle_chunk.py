"""unaligned-eagle-chunk: with a drafter that drops a block, chunks of a prompt's last two blocks are not aligned."""

from __future__ import annotations

import inspect
from typing import Any

from harness.issues.change import Change
from harness.issues.engine_changes import to_block_end
from harness.issues.sequence_issue import SPLIT, SequenceIssue, speculates
from harness.kernels.targets.vllm.bare import source_of


def _align_eagle_chunks(engine: Any) -> None:
    """A chunk that starts inside a block ends at the block's end, where a release up to 0.26 cuts the chunks.

    There the last two blocks of a prompt are not cut on the grid if the drafter drops a block. Later releases know
    where the prefill ends, and do not have this issue.
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
        given = signature.bind(scheduler, request, *arguments, **named).arguments
        hits = given.get("num_new_local_computed_tokens", 0) + given.get("num_external_computed_tokens", 0)
        start = int(request.num_computed_tokens + hits)
        if start >= max(request.num_prompt_tokens, request.num_tokens - 1) or start % size == 0:
            return found
        return min(found, to_block_end(start, size))

    scheduler._mamba_block_aligned_split = wrapped


ISSUE = SequenceIssue(
    name="unaligned-eagle-chunk",
    summary="with a drafter that drops a block, chunks of a prompt's last two blocks are not aligned (up to 0.26)",
    report="https://github.com/vllm-project/vllm/issues/43559",
    since="0.25.0",
    until="0.27.0",
    reaches=speculates,
    fix="up to 0.26, a chunk that starts inside a block ends at the next boundary",
    change=Change(engine=_align_eagle_chunks),
    patches=(SPLIT,),
    old_name="aligned-eagle-chunks",
)
