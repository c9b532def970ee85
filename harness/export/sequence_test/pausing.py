"""Pausing, sleeping and resuming, by the engine core's own calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.export.sequence_test.engine import Engine, Plain, module
from harness.export.sequence_test.sequence import Pause


def make_core(engine: Engine, in_flight: Any, discard: Callable[[], None]) -> Any:
    """The core of an engine; `discard` is called when it gives up the memory of the KV cache."""
    core: Any = object.__new__(module("v1.engine.core").EngineCoreProc)
    workers = Plain(is_sleeping=False, reset_mm_cache=lambda: None, reset_encoder_cache=lambda: None)

    def sleep(level: int) -> None:
        workers.__dict__["is_sleeping"] = True
        discard()

    def wake_up(tags: Any = None) -> None:
        workers.__dict__["is_sleeping"] = False

    workers.__dict__.update(sleep=sleep, wake_up=wake_up, collective_rpc=lambda *_, **__: [])
    core.__dict__.update(
        scheduler=engine.scheduler,
        model_executor=workers,
        batch_queue=in_flight if engine.settings.asynchronous else None,
        engines_running=False,
        output_queue=Plain(put_nowait=lambda item: None),
        mm_receiver_cache=None,
        reject_new_requests=False,
        _idle_state_callbacks=[],
        _set_kv_connector_handshake_metadata=lambda: None,
        sleeping=False,
    )
    return core


def pause(core: Any, event: Pause) -> None:
    if event.mode in ("all", "new"):  # the scheduler's state alone
        states = module("v1.core.sched.interface").PauseState
        core.scheduler.set_pause_state(states.PAUSED_ALL if event.mode == "all" else states.PAUSED_NEW)
    elif event.level is None:
        core.pause_scheduler(mode=event.mode, clear_cache=event.clear_cache)
    else:
        core.sleeping = True
        core.sleep(level=event.level, mode=event.mode)


def resume(core: Any) -> None:
    if core.sleeping:
        core.sleeping = False
        core.wake_up(None if core.model_executor.is_sleeping else ["scheduling"])
    else:
        core.resume_scheduler()


def settle(core: Any) -> None:
    """What waits until the engine is idle."""
    if core._idle_state_callbacks and not core.has_work():
        core._notify_idle_state_callbacks()
