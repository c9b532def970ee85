"""The kernels that a sequence's arguments run through: a target on an executor, loaded in addition to a whole release.

The scheduler side of a release and its kernels are both called `vllm`, and the kernels run on stubs for everything
around them. So they are loaded first, and the name is released before the whole package is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from harness.text import one_line

if TYPE_CHECKING:
    from harness.kernels.executors.base import Arena, Executor
    from harness.kernels.targets.base import Target

RESERVED = 1 << 24
"""Minimum number of bytes of an arena."""


class KernelChoice(msgspec.Struct, frozen=True):
    """A target text and the name of an executor."""

    target: str
    executor: str


class KernelSide(msgspec.Struct, frozen=True):
    """What happens to the stream of kernel arguments in addition to the symbolic judgement.

    It runs through `kernels`, and is written to the folder `cases`, cut into kernel cases. None: not done.
    """

    kernels: KernelChoice | None = None
    cases: str | None = None


class Kernels:
    """A loaded target and its arena, used for all sequences of a process.

    Raises UnknownTarget or UnavailableExecutor.
    """

    def __init__(self, choice: KernelChoice) -> None:
        from harness.kernels.executors.registry import create_executor
        from harness.kernels.targets.registry import load_target
        from harness.kernels.targets.vllm.importing import set_aside

        self.choice = choice
        self.executor: Executor = create_executor(choice.executor, ("memory",))
        self.target: Target = load_target(choice.target, self.executor)
        set_aside()
        self._arena: Arena | None = None

    def end_with_the_device(self, error: Exception) -> None:
        """Raise DeviceFault if an exception says that the device is gone: this process cannot run anything any more."""
        from harness.kernels.executors.base import DeviceFault

        if self.executor.is_device_fault(error):
            raise DeviceFault(one_line(error)) from error

    def arena(self, size: int) -> Arena:
        """An arena of at least `size` bytes, which may hold data of an earlier sequence."""
        if self._arena is None or self._arena.size < size:
            self._arena = None  # a device may not have room for both
            self._arena = self.executor.allocate(max(size, RESERVED))
        return self._arena
