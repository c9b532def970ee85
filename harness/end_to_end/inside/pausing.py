"""Pausing is stopping an engine by the calls of its own core, as a server's core does: callbacks wait until it is idle.

An engine in this process has a core without the queues of a server, whose pauses take effect at once or are refused.
So the server's class of the core is asked, on the same state.
"""

from __future__ import annotations

from typing import Any

from harness.case.sequence import Pause


class _Sink:
    """Takes the place of the queue to the clients, which gets the requests that a pause aborts."""

    def put_nowait(self, item: Any) -> None:
        """Drop it: there are no clients."""


class Pausing:
    """Pauses one core, and lets it continue."""

    def __init__(self, core: Any) -> None:
        from vllm.v1.engine.core import EngineCoreProc

        self._scheduler = core.scheduler
        self._core = object.__new__(EngineCoreProc)
        self._core.__dict__ = core.__dict__  # one state, whichever class is asked
        fields = {"engines_running": False, "output_queue": _Sink(), "reject_new_requests": False}
        core.__dict__.update({name: value for name, value in fields.items() if name not in core.__dict__})
        core.__dict__.setdefault("_idle_state_callbacks", [])

    def pause(self, event: Pause) -> None:
        """Pause, or sleep at level 0. It may take effect later, when the engine is idle. A worker on the CPU cannot
        give up its memory: deeper sleep raises what the release raises."""
        if event.mode in ("all", "new"):
            from vllm.v1.core.sched.interface import PauseState

            self._scheduler.set_pause_state(PauseState.PAUSED_ALL if event.mode == "all" else PauseState.PAUSED_NEW)
        elif event.level is None:
            self._core.pause_scheduler(mode=event.mode, clear_cache=event.clear_cache)
        else:
            self._core.sleep(level=event.level, mode=event.mode)

    def resume(self) -> None:
        """Continue."""
        self._core.resume_scheduler()

    def settle(self) -> None:
        """Do what waits until the engine is idle, if it is."""
        if self._core._idle_state_callbacks and not self._core.has_work():
            self._core._notify_idle_state_callbacks()
