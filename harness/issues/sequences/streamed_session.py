"""streamed-session: the next turn of a resumable request starts from a Mamba state of other tokens than it counts."""

from __future__ import annotations

from typing import Any

from harness.issues.change import Change
from harness.issues.forgotten import forgetting
from harness.issues.sequence_issue import SequenceIssue
from harness.kernels.targets.vllm.scheduling.needed import Name


def _start_turns_afresh(engine: Any) -> None:
    """A session that starts its next turn gives up its blocks, and workers forget it: it resumes from the cache."""
    scheduler = engine.scheduler
    update, forget = scheduler._update_request_as_session, forgetting(scheduler)
    free = getattr(scheduler, "_free_request_blocks", scheduler.kv_cache_manager.free)

    def wrapped(session: Any, *arguments: Any, **named: Any) -> None:
        update(session, *arguments, **named)
        free(session)
        session.num_computed_tokens = 0
        # Up to 0.31.0 the hash of a block that the dropped token filled is kept, and would find another text's state.
        session.block_hashes.clear()
        session.update_block_hashes()
        forget(session.request_id)

    scheduler._update_request_as_session = wrapped


ISSUE = SequenceIssue(
    name="streamed-session",
    summary="the next turn of a resumable request starts from a Mamba state of other tokens than it counts",
    report="docs/reports/streamed-session.md",
    since="0.25.0",
    until=None,
    reaches=lambda config: config.num_spec > 0 or config.asynchronous,
    events=lambda case: case.streams,
    fix="a resumable request starts each turn from the prefix cache, as a new one does",
    change=Change(engine=_start_turns_afresh),
    patches=(
        Name("vllm.v1.core.sched.scheduler", "Scheduler._update_request_as_session"),
        Name("vllm.v1.core.sched.scheduler", "Scheduler.schedule"),
    ),
)
