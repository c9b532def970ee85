"""reset-with-session: the caches can be reset while a session waits for input (docs/reports/reset-with-session.md).

In vLLM's tests: a resumable request in a scheduler of `create_scheduler`.
"""

from __future__ import annotations

from harness.kernels.targets.vllm.scheduling.engine import Engine
from tests.maintainers.objects import config, deliver, switch_on

ISSUE = "reset-with-session"


def check(engine: Engine) -> None:
    """A session whose first turn is over, and a reset that is to succeed whatever runs."""
    engine.add("a", [1, 2, 3], 1, 0, 0.0, stop=-1, resumable=True)
    deliver(engine, engine.scheduler.schedule())
    assert not engine.scheduler.running, "the session's turn is not over"
    try:
        assert engine.reset(running=True), "the reset says that it failed"
    except RuntimeError as error:
        raise AssertionError(f"the reset raises {type(error).__name__}: {error}") from error


def run(suggested: bool) -> None:
    """The suggested rule: what is preempted for a reset are running requests, and sessions that wait as well."""
    engine = Engine(config())
    if suggested:
        switch_on(engine, ISSUE)
    check(engine)
