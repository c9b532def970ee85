"""The registry of executors: name -> class, imported only when it is wanted, so that listing them costs
nothing. Others add theirs through entry points of the group `mamba_migration_harness.executors`: each has the name of
an executor, and names its class.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
from collections.abc import Collection, Mapping

from harness.kernels.executors.base import Executor
from harness.refusal import Refusal
from harness.suggestions import unknown

ENTRY_POINTS = "mamba_migration_harness.executors"

_OURS = {
    "cuda": "harness.kernels.executors.cuda:CudaExecutor",
    "native": "harness.kernels.executors.native.executor:NativeExecutor",
    "interpreter": "harness.kernels.executors.interpreter:InterpreterExecutor",
}
"""In the order in which one is chosen when nobody names any: the fastest first."""


@functools.cache
def _classes() -> Mapping[str, str]:
    """Where each class is; a name of ours is ours."""
    return {entry.name: entry.value for entry in importlib.metadata.entry_points(group=ENTRY_POINTS)} | _OURS


class UnavailableExecutor(Refusal):
    """An executor that does not exist, or that this machine or process cannot run. Its message is one
    line."""


def executor_names() -> tuple[str, ...]:
    """All executors, whether or not this machine can run them."""
    return tuple(dict.fromkeys((*_OURS, *_classes())))


def executor_class(name: str) -> type[Executor]:
    """The class called `name`. Raises UnavailableExecutor if there is none."""
    if name not in _classes():
        raise UnavailableExecutor(unknown("executor", [name], executor_names()))
    module, _, attribute = _classes()[name].partition(":")
    found: type[Executor] = getattr(importlib.import_module(module), attribute)
    return found


def create_executor(name: str, checks: Collection[str] | None = None) -> Executor:
    """A new executor that watches at most `checks` (None: all that it can); those that cannot watch anything, do not.

    Raises UnavailableExecutor, with the reason, if it cannot run here.
    """
    found = executor_class(name)
    reason = found.unavailable()
    if reason is not None:
        raise UnavailableExecutor(f"executor {name} is not available: {reason}")
    try:
        return found.create(checks)
    except RuntimeError as error:
        raise UnavailableExecutor(f"executor {name} is not available: {str(error).splitlines()[0]}") from error


def default_executor_name() -> str:
    """The first of ours that this machine can run: `cuda`, else `native`, else `interpreter`.

    Raises UnavailableExecutor, with every reason, if there is none.
    """
    reasons = []
    for name in _OURS:
        reason = executor_class(name).unavailable()
        if reason is None:
            return name
        reasons.append(f"{name}: {reason}")
    raise UnavailableExecutor(f"no executor is available ({'; '.join(reasons)})")
