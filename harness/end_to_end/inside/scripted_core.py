"""A scripted core is the release's engine core in this process, which pauses as one in a process of its own does."""

from __future__ import annotations

from typing import Any

from harness.end_to_end.inside.overruling import mark_drafters_group

OWN_CALLS = ("pause_scheduler", "has_work", "_notify_idle_state_callbacks", "_pause_complete")
"""What a core in a process of its own does otherwise."""


def scripted_core() -> type[Any]:
    """The class, of the imported release."""
    from vllm.v1.engine.core import EngineCore, EngineCoreProc

    def caches(self: Any, config: Any) -> Any:
        return mark_drafters_group(config, EngineCore._initialize_kv_caches(self, config))

    def nothing(self: Any, *args: Any) -> None:
        """There are no clients that wait for outputs."""

    members = {name: vars(EngineCoreProc)[name] for name in OWN_CALLS if name in vars(EngineCoreProc)}
    members |= {"_initialize_kv_caches": caches, "_send_abort_outputs": nothing, "engines_running": False}
    return type("ScriptedEngineCore", (EngineCore,), members)


def settle(core: Any) -> None:
    """Do what waits until the engine is idle, if it is."""
    if core._idle_state_callbacks and not core.has_work():
        core._notify_idle_state_callbacks()


def pause(core: Any, mode: str, clear_cache: bool) -> None:
    """Pause, by the core's own call or, with `all` and `new`, in the scheduler's state alone."""
    from vllm.v1.core.sched.interface import PauseState

    states = {"all": PauseState.PAUSED_ALL, "new": PauseState.PAUSED_NEW}
    if mode in states:
        core.scheduler.set_pause_state(states[mode])
    else:
        core.pause_scheduler(mode=mode, clear_cache=clear_cache)
