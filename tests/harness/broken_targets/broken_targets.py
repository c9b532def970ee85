"""Targets that take their process down: the harness's own kernels, until a certain kind of batch arrives.

Written `broken:HOW`, where HOW is one of HARMS, or a way not to load; `broken:HOW@N` waits for the one batch whose
source columns, stale ones included, add up to N. With BROKEN_TARGETS_MENDED in the environment none breaks. A test puts
this folder on PYTHONPATH; the entry point next to this file does the rest, as for targets of other packages.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from harness.kernels.executors.base import DeviceFault
from harness.kernels.targets.base import Bound, Target, TargetIncomplete, TargetLacks
from harness.kernels.targets.family import KnownTarget
from harness.refusal import UnknownTarget

if TYPE_CHECKING:
    import torch

    from harness.case import Layout
    from harness.kernels.executors.base import Executor
    from harness.kernels.targets.base import Allocate, LayoutTensors, PostprocessArrays, PrecopyArrays


MENDED = "BROKEN_TARGETS_MENDED"


def segfault(arrays: Any) -> None:
    print("about to read address 0", file=sys.stderr, flush=True)
    ctypes.string_at(0)


def leave(arrays: Any) -> None:
    os._exit(3)


def hang(arrays: Any) -> None:
    print("hanging", file=sys.stderr, flush=True)
    while True:
        pass


def killed(arrays: Any) -> None:
    """Kill this process as Linux does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def killed_once(arrays: Any) -> None:
    """Kill this process the first time only; the file that BROKEN_TARGETS_MARK names exists from then on."""
    mark = os.environ["BROKEN_TARGETS_MARK"]
    if not os.path.exists(mark):
        open(mark, "w").close()
        killed(arrays)


def exhaust(arrays: Any) -> None:
    """Ask for more memory than there is, and break."""
    _ = bytearray(1 << 62)


def allocate(arrays: Any) -> None:
    """Take memory without end; what the test's machine has to have is bounded all the same."""
    taken = [b"x" * (1 << 24) for _ in range(256)]
    raise AssertionError(f"nothing ended this process at {len(taken) << 24} bytes")


KEPT: list[bytes] = []


def hoard(arrays: Any) -> None:
    """Keep some memory that is never needed again, as a leak does."""
    KEPT.append(b"x" * 300_000_000)


def throw(arrays: Any) -> None:
    raise RuntimeError("no\nsuch luck")


def write_before(arrays: Any) -> None:
    """Write in front of an argument."""
    ctypes.memset(arrays.bias.data_ptr() - 8, 0x5A, 8)


def incomplete(arrays: Any) -> None:
    """Raise what is not a verdict on anything: the harness's stubs lack something."""
    raise TargetIncomplete("no stand-in for something")


def fault(arrays: Any) -> None:
    """Raise what a kernel raises that takes the device down."""
    raise DeviceFault("the device is gone")


LATE: list[str] = []
"""What the device reports at the next call that waits for it."""


def fault_late(arrays: Any) -> None:
    """Start what will fault when somebody waits for it, as a kernel does."""
    print("kernel.cu:7: Assertion `offset < size` failed.", file=sys.stderr, flush=True)
    LATE.append("CUDA error: device-side assert triggered")


def fault_and_throw(arrays: Any) -> None:
    """Raise an error that names no device, after a fault that was not yet reported."""
    fault_late(arrays)
    raise ValueError("what the host makes of it")


def device_assertion(arrays: Any) -> None:
    """Have the GPU look behind the end of a tensor, which a kernel of PyTorch asserts not to be done."""
    import torch

    _ = torch.zeros(4, device="cuda")[torch.tensor([1 << 20], device="cuda")]


def settle() -> None:
    if LATE:
        raise RuntimeError(LATE[0])


def warn(arrays: Any) -> None:
    warnings.warn("something\nto know", stacklevel=1)


def lack(arrays: Any) -> None:
    raise TargetLacks("broken targets lack this")


HARMS: dict[str, Callable[[Any], None]] = {
    "segfault": segfault,
    "exit": leave,
    "hang": hang,
    "raise": throw,
    "killed": killed,
    "killed-once": killed_once,
    "exhaust": exhaust,
    "allocate": allocate,
    "hoard": hoard,
    "write": write_before,
    "incomplete": incomplete,
    "fault": fault,
    "device-assertion": device_assertion,
    "fault-late": fault_late,
    "fault-and-raise": fault_and_throw,
    "warn": warn,
    "lack": lack,
}


def is_trigger(runner: str, num_requests: int) -> bool:
    """The precopy batches that break: rare enough for a campaign to continue."""
    return runner == "V2" and num_requests == 1


class BrokenTarget(Target):
    mapping_bits = 32

    def __init__(self, name: str, harm: Callable[[Any], None], only: int | None, right: Target) -> None:
        self.name, self._harm, self._only, self._right = name, harm, only, right

    def owns(self, file: str) -> bool:
        return file == __file__

    def bind(self, layout: Layout, tensors: LayoutTensors, allocate: Allocate) -> Bound:
        return BrokenContext(self._harm, self._only, self._right.bind(layout, tensors, allocate))


class BrokenContext(Bound):
    def __init__(self, harm: Callable[[Any], None], only: int | None, right: Bound) -> None:
        self._harm, self._only, self._right = harm, only, right

    @property
    def accepted_out(self) -> torch.Tensor:
        return self._right.accepted_out

    def postprocess(self, arrays: PostprocessArrays) -> None:
        self._right.postprocess(arrays)

    def precopy(self, arrays: PrecopyArrays) -> None:
        if self._only is not None:
            breaks = int(arrays.source_column.sum()) == self._only
        else:
            breaks = self._harm is lack or is_trigger(arrays.runner, arrays.num_requests)
        if breaks and MENDED not in os.environ:
            self._harm(arrays)
        self._right.precopy(arrays)


class BrokenFamily:
    forms = ("broken:HOW",)

    def claims(self, name: str) -> bool:
        return name.startswith("broken:")

    def check(self, name: str) -> None:
        """Do nothing: the worker finds out."""

    def prepare(self, name: str, announce: object) -> None:
        """Do nothing."""

    def known(self) -> Iterator[KnownTarget]:
        yield KnownTarget("broken:HOW", "breaks", None)

    def load(self, name: str, mutations: Sequence[Any], executor: Executor) -> Target:
        how = name.removeprefix("broken:")
        if how == "load-refused":
            raise UnknownTarget("this one\ncannot be loaded")
        if how == "load-raises":
            raise RuntimeError("loading failed")
        if how == "load-exits":
            os._exit(5)
        from harness.kernels.targets.builtin import BuiltinTarget

        how, _, only = how.partition("@")
        if how == "fault":  # executors of the CPU know no such thing
            executor.is_device_fault = lambda error: isinstance(error, DeviceFault)  # type: ignore[method-assign]
        elif how.startswith("fault"):
            executor.is_device_fault = lambda error: bool(LATE)  # type: ignore[method-assign]
            executor.settle = settle  # type: ignore[method-assign]
        return BrokenTarget(name, HARMS[how], int(only) if only else None, BuiltinTarget(executor, mutations))


FAMILY = BrokenFamily()
