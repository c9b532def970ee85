"""The registry of executors: name -> class. Classes are imported only when needed, so that listing them is cheap.
Other packages add theirs through entry points of the group `mamba_migration_harness.executors`: each has the name of
an executor, and names its class.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import cast

from harness.kernels.executors.base import Executor
from harness.kernels.executors.requirements import unmet
from harness.refusal import Refusal
from harness.registry import found_at
from harness.suggestions import unknown

ENTRY_POINTS = "mamba_migration_harness.executors"

_OURS = {
    "cuda": "harness.kernels.executors.cuda:CudaExecutor",
    "native": "harness.kernels.executors.native.executor:NativeExecutor",
    "interpreter": "harness.kernels.executors.interpreter:InterpreterExecutor",
}
"""In the order in which one is chosen by default: the fastest first."""


@functools.cache
def _classes() -> Mapping[str, str]:
    """Where each class is; an entry point cannot replace one of our names."""
    others = importlib.metadata.entry_points(group=ENTRY_POINTS)
    return _OURS | {entry.name: entry.value for entry in others if entry.name not in _OURS}


class UnavailableExecutor(Refusal):
    """An executor that does not exist, or that this machine or process cannot run. The message is one
    line."""


def executor_names() -> tuple[str, ...]:
    """All executors, whether or not this machine can run them."""
    return tuple(_classes())


def executor_class(name: str) -> type[Executor]:
    """The class called `name`. Raises UnavailableExecutor if there is none, or an import that it needs fails."""
    try:
        return _imported(name)
    except (ImportError, OSError) as error:
        raise _unavailable(name, _not_imported(error)) from error


def why_unavailable(name: str, imports: bool = False) -> str | None:
    """Why this machine cannot run the executor called `name`, in one line; None if it can, as far as that is known
    without a kernel. Raises UnavailableExecutor if there is no executor of that name.

    `imports`: also try everything that it imports. Not for a process that will run kernels in Triton's interpreter,
    which has to be chosen before.
    """
    try:
        found = _imported(name)
        reason = found.unavailable()
        if reason is None and imports:
            importlib.import_module(found.imports)
        return reason
    except (ImportError, OSError) as error:
        return _not_imported(error)


def create_executor(name: str, checks: Collection[str] | None = None) -> Executor:
    """A new executor that performs at most `checks` (None: all that it supports). Unsupported checks are left out.

    Raises UnavailableExecutor, with the reason, if it cannot run here.
    """
    reason = why_unavailable(name)
    if reason is not None:
        raise _unavailable(name, reason)
    try:
        return executor_class(name).create(checks)
    except (ImportError, OSError) as error:
        raise _unavailable(name, _not_imported(error)) from error
    except RuntimeError as error:
        raise _unavailable(name, str(error).splitlines()[0]) from error


def default_executor_name() -> str:
    """The first of ours that this machine can run: `cuda`, else `native`, else `interpreter`, with a warning that names
    the reason: it is slow, and sees less.

    Raises UnavailableExecutor, with all reasons, if there is none.
    """
    reasons: dict[str, str] = {}
    for name in _OURS:
        reason = why_unavailable(name)
        if reason is None:
            if name == "interpreter":
                warnings.warn(f"Triton's interpreter is used, which is slow; native: {reasons['native']}", stacklevel=2)
            return name
        reasons[name] = reason
    if len(set(reasons.values())) == 1:
        raise UnavailableExecutor(f"no executor is available: {reason}")
    raise UnavailableExecutor(
        f"no executor is available ({'; '.join(f'{name}: {reason}' for name, reason in reasons.items())})"
    )


@functools.cache
def recorded_executor_name(recorded: str, announce: Callable[[str], None]) -> str:
    """The executor that a file names, on which its finding was made; where this machine does not have it, the default
    one, of which `announce` gets one line. Raises UnavailableExecutor if there is none."""
    try:
        reason = why_unavailable(recorded)
    except UnavailableExecutor:
        reason = "there is no such executor"
    if reason is None:
        return recorded
    name = default_executor_name()
    announce(f"the file is from the executor {recorded}, which is not available here ({reason}): {name} runs it")
    return name


def _imported(name: str) -> type[Executor]:
    if name not in _classes():
        raise UnavailableExecutor(unknown("executor", [name], executor_names()))
    return cast(type[Executor], found_at(_classes()[name]))


def _unavailable(name: str, reason: str) -> UnavailableExecutor:
    return UnavailableExecutor(f"executor {name} is not available: {reason}")


def _not_imported(error: Exception) -> str:
    """One line for an import that failed, as when a package is missing, damaged, or built for another system."""
    reason = unmet("torch", "triton", "numpy")
    if reason is not None:
        return reason
    lines = str(error).splitlines() or [type(error).__name__]
    return f"an import that it needs fails: {lines[0]}"
