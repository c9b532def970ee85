"""Shadowing tracks uninitialised values through the operations of one case, in addition to its bytes.

The executor's kernels propagate shadows in separate memory (see harness.memory.shadow), and so do plain copies of host
code (harness.check.host_copies). Other writes of host code are not observed: in a target's own buffers, bytes that no
longer hold poison count as defined, and so does memory that can be written unobserved (harness.check.exported_memory).
"""

from __future__ import annotations

from harness.case import Case
from harness.check.host_copies import HostCopies
from harness.check.private_memory import PrivateMemory
from harness.kernels.executors.base import Arena
from harness.kernels.executors.host_memory import HostArena
from harness.memory import Image, MemoryPlan, define_arrays, initial_shadow
from harness.oracles.expected import Expected
from harness.oracles.undefined import trace


class Shadowing:
    """The shadows of one case, as memory holds them. `arena` is the executor's memory for them."""

    def __init__(self, case: Case, plan: MemoryPlan, arena: Arena) -> None:
        self._plan, self._arena = plan, arena
        self._shadow = initial_shadow(case, plan)
        arena.write_all(plan.covered, self._shadow.data)

    def load(self, index: int) -> None:
        """Load the shadows of the arguments of an operation."""
        define_arrays(self._plan, index, self._shadow)
        for span in self._plan.arrays[index].values():
            self._arena.write(span.start, self._shadow.view(span.start, span.size))

    def begin(self, index: int, private: PrivateMemory) -> None:
        """Prepare the shadows for an operation that begins."""
        private.exported.forget(self._plan.arrays[index].values())
        self._restart(private)

    def _restart(self, private: PrivateMemory) -> None:
        self._start, self._unwritten = private.unwritten()
        self._arena.write(self._start, self._unwritten)
        private.exported.define(self._arena)

    def refresh(self, private: PrivateMemory) -> None:
        """Update the shadows before a launch: host code may have written to the target's buffers."""
        _, unwritten = private.unwritten()
        if len(unwritten) > len(self._unwritten):
            self._restart(private)  # it has allocated new ones
            return
        written = (self._unwritten != 0) & (unwritten == 0)
        if written.any():
            shadow = self._arena.read(self._start, len(unwritten)).copy()
            shadow[written] = 0
            self._arena.write(self._start, shadow)
        self._unwritten = unwritten
        private.exported.define(self._arena)

    def following(self, memory: Arena, private: PrivateMemory) -> HostCopies:
        """The context manager to enter while host code of the target runs on `memory`."""
        assert isinstance(memory, HostArena), "no other memory has shadows"
        return HostCopies(memory, self._arena, private.exported, lambda: self.refresh(private))

    def fill(self, before: Image, expected: Expected) -> None:
        """Apply what is expected where the harness itself does the operation."""
        after = trace(before, self._shadow, expected)
        self._arena.write_all(self._plan.covered, after.data)
        self._shadow = after

    def end(self, before: Image, expected: Expected, private: PrivateMemory) -> tuple[Image, Image]:
        """What is undefined after an operation on memory that held `before`: by the oracle's trace, and as found."""
        private.exported.define(self._arena)
        traced = trace(before, self._shadow, expected)
        found = Image.of(self._plan.covered, self._arena.read_all(self._plan.covered))
        self._shadow = found
        return traced, found
