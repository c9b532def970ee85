"""What has to be looked at before a pass says that a finding is gone, by what the finding rests on.

A finding rests on a check (nothing else sees it), on the order in which programs and warps ran (bytes that are wrong in
one order may be right in another), on addresses, or on the executor itself (a process that was lost). A pass that left
this out says nothing, and is a skip. The rule is here alone: replays, shrinking and sweeps ask it.
"""

from __future__ import annotations

from typing import Literal

from harness.case import Check, Execution
from harness.check.outcome import Signature
from harness.kernels.executors.base import Executor
from harness.kernels.executors.registry import UnavailableExecutor, executor_class

Order = tuple[object, ...] | Literal["natural", "any"]
"""How programs and warps run: one program after the other, by these settings of a case, or as the device likes."""


def checks_of(signature: Signature) -> tuple[Check, ...]:
    """The checks without which no executor sees a finding."""
    if signature.oracle == "race":
        return ("races", "identical-stores") if signature.violation.endswith("-identical") else ("races",)
    if signature.oracle == "undefined":
        return ("memory", "undefined")
    return ("memory",) if signature.oracle == "access" else ()


def not_looked_at(signature: Signature, found_on: str, execution: Execution, executor: str) -> str | None:
    """Why a pass on `executor` says nothing about a finding of the executor `found_on`; None if it does. `execution` is
    how the case was run, or asked to be. Raises UnavailableExecutor if there is no such executor as `executor`."""
    here = executor_class(executor)
    needed = checks_of(signature)
    if needed and not here.instrumented:
        return f"{signature.oracle} findings need an executor that watches for them: try `-e native`"
    missing = [check for check in needed if check not in execution.checks]
    if missing:
        off = f"the check of {missing[0]} is" if len(missing) == 1 else f"the checks of {' and '.join(missing)} are"
        return f"{off} off: try `--checks {','.join(needed)}`"
    if execution.high_addresses and here.order != "chosen" and _order_of_executor(found_on) == "chosen":
        return "found with addresses whose highest bit is set, which this executor does not choose: try `-e native`"
    if needed:
        return None
    if signature.oracle == "isolation":
        return _loss(signature, found_on, execution, here)
    if (signature.oracle, signature.violation) == ("host", "late-write") and here.order == "any":
        return f"{executor} does not see when a copy from the host is done: try `-e native`"
    if not rests_on_order(signature, found_on, execution, executor) or _sees_races(here, execution):
        return None
    if here.instrumented:
        return f"depends on program order, which {found_on} chose: --checks races would show that"
    return f"depends on program order: try `-e {found_on}`"


def rests_on_order(signature: Signature, found_on: str, execution: Execution, executor: str) -> bool:
    """Whether a finding may rest on an order that `executor` does not repeat. A pass counts there only if races are
    looked for as well: without one, bytes are the same in every order."""
    if checks_of(signature) or signature.oracle == "isolation":
        return False
    before = _order(found_on, execution)
    if signature.oracle == "exception" and before == "natural":
        return False  # host code raised it, before or after kernels whose bytes are right
    after = _order(executor, execution)
    return before != after or (after == "any" and found_on != executor)


def _loss(signature: Signature, found_on: str, execution: Execution, here: type[Executor]) -> str | None:
    """Of a process that was lost: a device fault is a wild access, which a check sees as well."""
    if here.name == found_on:
        return None
    if signature.violation == "device-fault" and here.instrumented and "memory" in execution.checks:
        return None
    return f"the process was lost on {found_on}: try `-e {found_on}`"


def _sees_races(here: type[Executor], execution: Execution) -> bool:
    return here.instrumented and "races" in execution.checks


def _order_of_executor(name: str) -> str:
    try:
        return executor_class(name).order
    except UnavailableExecutor:  # of another package, or a text
        return "any"


def _order(executor: str, execution: Execution) -> Order:
    kind = _order_of_executor(executor)
    if kind == "any":
        return "any"
    chosen = (execution.program_order, execution.warps, execution.interleave)
    if kind == "natural" or chosen in (("natural", "together", 0), ("natural", "together", 1)):
        return "natural"
    return (*chosen, execution.seed)
