"""reset-with-session: a reset of the caches fails while a resumable request waits for input, which keeps its blocks."""

from __future__ import annotations

from typing import Any

from harness.issues.change import Change
from harness.issues.forgotten import forgetting
from harness.issues.sequence_issue import SequenceIssue
from harness.kernels.targets.vllm.scheduling.needed import Name

WAITING = ("WAITING_FOR_STREAMING_REQ", "WAITING")
"""States of a session that is not running and may have blocks."""


def _free_waiting_sessions(engine: Any) -> None:
    """A reset that preempts what runs takes the blocks of sessions that wait as well, and workers forget these."""
    scheduler = engine.scheduler
    reset, update = scheduler.reset_prefix_cache, scheduler._update_request_as_session
    forget = forgetting(scheduler)
    free = getattr(scheduler, "_free_request_blocks", scheduler.kv_cache_manager.free)
    taken: set[str] = set()
    unfinished = scheduler.get_num_unfinished_requests

    def reset_all(reset_running_requests: bool = False, *arguments: Any, **named: Any) -> bool:
        for session in scheduler.requests.values() if reset_running_requests else ():
            if session.resumable and session.status.name in WAITING and session.num_computed_tokens:
                free(session)
                session.num_computed_tokens = 0
                forget(session.request_id)
                taken.add(session.request_id)
        return bool(reset(reset_running_requests, *arguments, **named))

    def update_taken(session: Any, *arguments: Any, **named: Any) -> None:
        waits = session.status.name == WAITING[0] and session.request_id in taken
        if waits:  # up to 0.32 it takes the count for that of the tokens to keep
            session.num_computed_tokens = session.num_tokens - 1
        update(session, *arguments, **named)
        if waits:
            session.num_computed_tokens = 0
        taken.discard(session.request_id)

    def count_holding() -> int:
        """Since 0.32.0, while no new requests are let in, those that hold blocks are counted, less all that wait for
        input. Those that gave up their blocks are not among the former."""
        if scheduler._pause_state.name != "PAUSED_NEW":
            return int(unfinished())
        holding = [one for one in scheduler.kv_holding_waiting if one.status.name != WAITING[0]]
        return len(holding) + len(scheduler.running)

    if "kv_holding_waiting" in unfinished.__code__.co_names:
        scheduler.get_num_unfinished_requests = count_holding
    scheduler.reset_prefix_cache = reset_all
    scheduler._update_request_as_session = update_taken


ISSUE = SequenceIssue(
    name="reset-with-session",
    summary="the caches cannot be reset while a resumable request waits for input: it keeps its blocks",
    report="docs/reports/reset-with-session.md",
    since="0.25.0",
    until=None,
    reaches=lambda config: True,
    events=lambda case: case.streams and case.resets,
    fix="a reset of the caches takes the blocks of resumable requests that wait, too",
    change=Change(engine=_free_waiting_sessions),
    patches=(
        Name("vllm.v1.core.sched.scheduler", "Scheduler.reset_prefix_cache"),
        Name("vllm.v1.core.sched.scheduler", "Scheduler._update_request_as_session"),
        Name("vllm.v1.core.sched.scheduler", "Scheduler.get_num_unfinished_requests"),
    ),
)
