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
    # The session has no blocks now. A pause that waits for what runs still has to wait.
    engine.add("b", [4, 5, 6], 50, 0, 1.0, stop=-1)
    for _ in range(2):
        deliver(engine, engine.scheduler.schedule())
    states = type(engine.scheduler.pause_state)
    engine.scheduler.set_pause_state(states.PAUSED_NEW)
    waits = engine.scheduler.get_num_unfinished_requests()
    assert waits == 1, f"one request runs, and a pause waits for {waits}"


def run(suggested: bool) -> None:
    """The suggested rule: what is preempted for a reset are running requests, and sessions that wait as well."""
    engine = Engine(config())
    if suggested:
        switch_on(engine, ISSUE)
    check(engine)
