"""tokens-lost-async: a forced reset discards as many outputs of a request as tokens were promised to it."""

from __future__ import annotations

from typing import Any

from harness.issues.change import Change
from harness.issues.sequence_issue import SequenceIssue, speculates_asynchronously
from harness.kernels.targets.vllm.bare import source_of
from harness.kernels.targets.vllm.scheduling.loading import module
from harness.kernels.targets.vllm.scheduling.needed import Name


def _discard_frames(engine: Any) -> None:
    """After a forced reset a release drops outputs, so outputs have to be counted."""
    if "async_tokens_to_discard" not in source_of(module("vllm.v1.request").Request):
        return
    reset = engine.reset

    def wrapped(running: bool) -> bool:
        done = bool(reset(running))
        for name, request in engine.scheduler.requests.items():
            if request.async_tokens_to_discard:
                request.async_tokens_to_discard = sum(1 for frame in engine.in_flight if frame.has_tokens_of(name))
        return done

    engine.reset = wrapped


ISSUE = SequenceIssue(
    name="tokens-lost-async",
    summary="after a forced reset an asynchronous scheduler discards tokens that are not stale (up to 0.26)",
    report="https://github.com/vllm-project/vllm/pull/49620",
    since="0.25.0",
    until="0.27.0",
    reaches=speculates_asynchronously,
    fix="a forced reset discards as many outputs as are in flight, not as many tokens",
    change=Change(engine=_discard_frames),
    patches=(Name("vllm.v1.request", "Request"),),
    old_name="discard-frames",
)
