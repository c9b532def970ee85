"""A workbench is a target on an executor with the memory that cases lie in.

To run an operation, it lays out the memory of the case in the executor's arena, binds the target to it, lets it do one
operation, and reads everything back. The next operation starts from the memory that the previous one left.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.case import Case, Check
from harness.case.case import Poison
from harness.check.assigned_lines import AssignedLines
from harness.check.layout_tensors import layout_tensors
from harness.check.operation_run import OperationRun, Seen, Task
from harness.check.operations.call import Results
from harness.check.operations.registry import handling
from harness.check.outcome import Seconds
from harness.check.private_memory import PrivateMemory
from harness.check.raised import is_refusal
from harness.check.shadowing import Shadowing
from harness.check.spans import array_spans, layout_spans
from harness.kernels.executors.base import AccessSpan, AllowedSpans, Arena, DeviceFault, Executor
from harness.kernels.targets.base import Bound, Target
from harness.memory import ArraySpan, Image, LayoutPlan, MemoryPlan, initial_image, plan_memory, write_arrays
from harness.oracles.before import Before
from harness.oracles.expected import Expected
from harness.oracles.relations.base import CaseVariant, Run
from harness.text import one_line

if TYPE_CHECKING:
    import torch

RESERVED = {True: 1 << 36, False: 1 << 28}
"""Minimum number of bytes of an arena, on the CPU (where it takes only address space) and elsewhere."""

KEPT_BYTES = 1 << 26
"""Layouts that extend further leave pages behind that no other layout would use."""


class Workbench:
    """One lives in one process and keeps the context of the layout it saw last."""

    def __init__(self, target: Target, executor: Executor) -> None:
        self.target = target
        self.executor = executor
        self.instrumented = True
        """Whether to watch what only instrumented executors see in addition to accesses out of bounds."""
        self.recording = False
        """Whether to record what each launch loads and stores in any case, and which host code launches it."""
        self.assigned: AssignedLines | None = None
        """Traces the host code of operations, if it is there."""
        self._shadowing: Shadowing | None = None
        self._arena: Arena | None = None
        self._layout: LayoutPlan | None = None
        self._bound: tuple[Bound, PrivateMemory, list[AccessSpan]] | None = None
        self._tensors: dict[tuple[int, int, int], torch.Tensor] = {}

    # Memory.

    def lay_out(
        self, case: Case, variant: CaseVariant | None = None, earlier: Sequence[Run] = ()
    ) -> tuple[MemoryPlan, Image]:
        """Write the memory of a case, prepared as a variant wants it, into the arena. Raises ExecutorCannot."""
        order = case.execution.program_order
        self.executor.program_order = (order, case.execution.seed) if order == "shuffled" else order
        self.executor.interleave, self.executor.schedule_seed = case.execution.interleave, case.execution.seed
        self.executor.warps_apart = case.execution.warps == "apart"
        self._watch(case, variant)
        plan = plan_memory(case, self.target.mapping_bits)
        image = initial_image(case, plan)
        if variant is not None and variant.prepare is not None:
            variant.prepare(plan, image, earlier)
        arena = self.room_for(plan)
        before = arena.address
        self.executor.raise_addresses(arena, case.execution.high_addresses)
        if arena.address != before:
            self.unbind()
            self._tensors.clear()
        arena.write_all(plan.covered, image.data)
        shadow = self.executor.shadow(arena)
        self._shadowing = None if shadow is None else Shadowing(case, plan, shadow)
        return plan, image

    def _watch(self, case: Case, variant: CaseVariant | None) -> None:
        """Choose what the executor watches. Relations compare their variants, so nothing is tracked there."""
        checks: list[Check] = [
            check
            for check in case.execution.checks
            if check == "memory" or (self.instrumented and (variant is None or check != "undefined"))
        ]
        if self.recording and "races" not in checks:
            checks.append("races")
        self.executor.trace_launches = self.recording
        self.executor.watch(checks)

    def load(self, case: Case, plan: MemoryPlan, index: int, before: Image) -> None:
        """Write the arguments of an operation into memory, where operations share them, and into `before`."""
        if not case.linked:
            return
        write_arrays(case, plan, index, before)
        arena = self._require_arena()
        for span in plan.arrays[index].values():
            arena.write(span.start, before.view(span.start, span.size))
        if self._shadowing is not None:
            self._shadowing.load(index)

    def read(self, plan: MemoryPlan) -> Image:
        """The current memory of a case."""
        return Image.of(plan.covered, self._require_arena().read_all(plan.covered))

    def has_changed(self, task: Task) -> bool:
        """Whether memory is no longer what it was before a task."""
        return any(True for _ in task.before.differences(self.read(task.plan)))

    def room_for(self, plan: MemoryPlan) -> Arena:
        """The arena, large enough for a plan; drops what belonged to another layout. Raises ExecutorCannot.

        One that a few huge layouts needed goes when the next layout is an ordinary one: workers share a device.
        """
        usual = RESERVED[self.executor.device.type == "cpu"]
        if self._arena is not None and self._layout is not plan.base and self._arena.size > usual >= plan.size:
            self._arena = None
        if self._arena is None or plan.size > self._arena.size:
            # Everything that refers to the old arena goes first: a device may not have room for both.
            self._layout = self._bound = self._arena = None
            self._tensors.clear()
            self._arena = self.executor.allocate(max(plan.size, usual))
        if self._layout is not plan.base:
            if self._layout is not None and self._layout.size > KEPT_BYTES:
                self._arena.discard(0, self._layout.size)
                if (shadow := self.executor.shadow(self._arena)) is not None:
                    shadow.discard(0, self._layout.size)
            self._layout = plan.base
            self.unbind()
            self._tensors.clear()
        return self._arena

    def _require_arena(self) -> Arena:
        assert self._arena is not None, "memory is laid out before anything runs"
        return self._arena

    # The target.

    def bind(
        self, plan: MemoryPlan, target: Target | None = None, poison: Poison = "A", later: bool = False
    ) -> tuple[Bound, PrivateMemory, list[AccessSpan]]:
        """The target's context for this layout, shared by all cases of a layout. `later`: the first use binds it."""
        if self._bound is None:
            arena = self._require_arena()
            private = PrivateMemory(arena, *plan.base.private, poison, self.target.is_metadata)
            bind = (target or self.target).bind_later if later else (target or self.target).bind
            tensors = layout_tensors(arena, plan.base)
            with private.exported:
                bound = bind(plan.base.layout, tensors, private.allocate)
            self._bound = (bound, private, layout_spans(plan.base))
        private = self._bound[1]
        plan.base.allocated[:] = private.allocated  # another target may have been bound to this layout meanwhile
        return self._bound

    def unbind(self) -> None:
        """Make the next operation bind the target again."""
        self._bound = None

    def arguments(self, case: Case, plan: MemoryPlan, index: int) -> dict[str, torch.Tensor]:
        """The tensors over the arguments of an operation, by name."""
        tensors = {name: self._array(span) for name, span in plan.arrays[index].items()}
        if "mapping" in tensors:
            tensors["mapping"] = tensors["mapping"][: len(case.program[index].rows)]
        return tensors

    def _array(self, span: ArraySpan) -> torch.Tensor:
        """The tensor over an argument: cases of one layout have their arguments in the same places."""
        import torch

        key = (span.start, span.item, span.length)
        tensor = self._tensors.get(key)
        if tensor is None:
            kind = torch.int32 if span.item == 4 else torch.int64
            tensor = self._require_arena().tensor(span.start, span.size, kind, (span.length,), (1,))
            self._tensors[key] = tensor
        return tensor

    # One operation.

    def run(self, task: Task, seconds: Seconds, target: Target | None = None, poison: Poison = "A") -> OperationRun:
        """Let the target do a task. Raises what the target raises, unless it has to raise."""
        start = time.perf_counter()
        seen, private = self._call(task, target, poison)
        found = self.read(task.plan)
        seconds.run += time.perf_counter() - start

        start = time.perf_counter()
        shadows = None
        if self._shadowing is not None and task.expected is not None:
            shadows = self._shadowing.end(task.before, task.expected, private)
        run = OperationRun(
            task.case,
            task.plan,
            task.index,
            task.before,
            task.expected,
            found,
            seen,
            launches=self.executor.launches,
            faults=self.executor.faults(),
            recorded=self.executor.recorded(),
            shadows=shadows,
            damaged=private.damaged(),
            owns=self.target.owns,
        )
        seconds.compare += time.perf_counter() - start
        return run

    def _call(self, task: Task, target: Target | None, poison: Poison) -> tuple[Seen, PrivateMemory]:
        """Let the target run one operation: what the host saw, and the target's own memory."""
        if not handling(task.operation).unbound:
            return self._call_bound(task, target, poison, later=False)
        self.unbind()
        try:
            return self._call_bound(task, target, poison, later=True)
        finally:
            # Bound as this entry point needs it, not as the others do; not at all if it raised before it did so.
            self.unbind()

    def _call_bound(
        self, task: Task, target: Target | None, poison: Poison, *, later: bool
    ) -> tuple[Seen, PrivateMemory]:
        case, plan, index = task.case, task.plan, task.index
        handled = handling(task.operation)
        bound, private, spans = self.bind(plan, target, poison, later)
        prepared = handled.prepare(bound, Before(case, plan, index, task.before))
        seen_before = prepared.results()
        transfers = self.executor.transfers
        transfers.forget()
        arena, shadowing = self._require_arena(), self._shadowing
        self.executor.begin(arena, AllowedSpans(private.together_with(spans), array_spans(plan, index)))
        if shadowing is not None:
            shadowing.begin(index, private)
        self.executor.on_launch = None if shadowing is None else lambda: shadowing.refresh(private)
        refused = False

        def results_now() -> Results:
            transfers.wait()  # what a line has sent counts as there
            return prepared.results()

        if handled.by_harness:
            assert task.expected is not None
            arena.write_all(plan.covered, task.expected.image.data)
            if shadowing is not None:
                shadowing.fill(task.before, task.expected)
        else:
            arguments = self.arguments(case, plan, index)
            watching = contextlib.nullcontext() if shadowing is None else shadowing.following(arena, private)
            try:
                assigned = self.assigned
                tracing = contextlib.nullcontext() if assigned is None else assigned.traced(results_now)
                with private.exported, watching, tracing:
                    prepared.run(arguments)
            except Exception as error:
                if not self._has_to_raise(task.expected, error):
                    raise
                refused = True
        plan.base.allocated[:] = private.allocated  # some of it only now, at the first use
        transfers.wait()
        return Seen(seen_before, prepared.results(), refused, tuple(transfers.late_writes)), private

    def _has_to_raise(self, expected: Expected | None, error: Exception) -> bool:
        """Whether the target rejected, with its own error, what it must reject."""
        if expected is None or expected.raises is None:
            return False
        return expected.raises in str(error) and is_refusal(error, self.target.owns)

    def end_with_the_device(self, error: Exception) -> None:
        """Raise DeviceFault if an exception says that the device is gone: this process cannot judge any more."""
        if self.executor.is_device_fault(error):
            raise DeviceFault(one_line(error)) from error
