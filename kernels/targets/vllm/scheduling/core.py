"""The core is the part of an engine between clients and scheduler: here, its calls that pause, sleep and wake up.

They are the release's own, on an object that has only the scheduler, an executor that knows whether it sleeps, and the
queue of steps in flight. So what guards a pause in production guards it here: caches are reset once the engine is idle,
unless the caller keeps them, and that preempts the requests that were kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from harness.case.sequence import Pause
from harness.kernels.targets.vllm.scheduling.loading import module


class _Executor:
    """Takes the place of the workers. `discard` is called when they give up their memory."""

    def __init__(self, discard: Callable[[], None]) -> None:
        self._discard = discard
        self.is_sleeping = False

    def sleep(self, level: int) -> None:
        """Levels 1 and 2 discard the KV cache; the weights do not matter here."""
        self.is_sleeping = True
        self._discard()

    def wake_up(self, tags: list[str] | None = None) -> None:
        self.is_sleeping = False

    def collective_rpc(self, *_: Any, **__: Any) -> list[Any]:
        return []

    def reset_mm_cache(self) -> None:
        """There is none."""

    def reset_encoder_cache(self) -> None:
        """There is none."""


class _Sink:
    """Takes the place of the queue to the clients, which gets the requests that a pause aborts."""

    def put_nowait(self, item: Any) -> None:
        """Drop it: there are no clients."""


class EngineCore:
    """The core of an engine. `in_flight` are its undelivered steps; `discard` is called when the KV cache is lost."""

    def __init__(self, scheduler: Any, in_flight: deque[Any], asynchronous: bool, discard: Callable[[], None]) -> None:
        kind = module("vllm.v1.engine.core").EngineCoreProc
        self._core = object.__new__(kind)
        self._core.__dict__.update(
            scheduler=scheduler,
            model_executor=_Executor(discard),
            batch_queue=in_flight if asynchronous else None,
            engines_running=False,
            output_queue=_Sink(),
            mm_receiver_cache=None,
            reject_new_requests=False,
            _idle_state_callbacks=[],
            _set_kv_connector_handshake_metadata=lambda: None,  # there is no connector
        )
        self.sleeping = False

    def pause(self, event: Pause) -> None:
        """Pause or sleep, as the event says. It may take effect later, when the engine is idle."""
        if event.level is None:
            self._core.pause_scheduler(mode=event.mode, clear_cache=event.clear_cache)
        else:
            self.sleeping = True
            self._core.sleep(level=event.level, mode=event.mode)

    def resume(self) -> None:
        """Continue, or wake up."""
        if self.sleeping:
            self.sleeping = False
            self._core.wake_up(["scheduling"] if not self._core.model_executor.is_sleeping else None)
        else:
            self._core.resume_scheduler()

    @property
    def paused(self) -> bool:
        """Whether scheduling is paused, for whatever requests."""
        return bool(self._core.is_scheduler_paused())

    def settle(self) -> None:
        """Do what waits until the engine is idle, if it is."""
        if self._core._idle_state_callbacks and not self._core.has_work():
            self._core._notify_idle_state_callbacks()
