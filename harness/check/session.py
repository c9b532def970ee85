"""A session is a target on an executor, ready to judge cases one after the other.

Judging a case: build its memory, copy it to the executor's arena, let the target run one operation, read everything
back, compare with what the oracle expects; then the next operation, on the memory the last one left.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.case import Case, ConvState, Postprocess
from harness.check.evidence import (
    access_evidence,
    byte_evidence,
    count_evidence,
    exception_evidence,
    operation_name,
    private_evidence,
    refused_reachable_evidence,
)
from harness.check.outcome import Evidence, Outcome, Seconds, Signature, SkipReason, Verdict
from harness.check.private_memory import PrivateMemory
from harness.check.raised import compile_failure, is_refusal, is_targets, said
from harness.kernels.executors.base import AccessSpan, Arena, Executor, ExecutorCannot, KernelDoesNotCompile
from harness.kernels.targets.base import (
    Bound,
    LayoutTensors,
    OutsideContract,
    PostprocessArrays,
    PrecopyArrays,
    Target,
    TargetIncomplete,
    TargetLacks,
)
from harness.memory import ArraySpan, Image, LayoutPlan, MemoryPlan, initial_image, plan_memory
from harness.oracles.memory import Expected, expect

if TYPE_CHECKING:
    import torch

RESERVED = {True: 1 << 36, False: 1 << 28}
"""Bytes that an arena has at least, on the CPU (where only address space is taken) and elsewhere."""

KEPT_BYTES = 1 << 26
"""Layouts that reach further leave pages behind that no other layout would use."""

_SKIPS: tuple[tuple[type[Exception], SkipReason], ...] = (
    (TargetLacks, "lacks-operation"),
    (OutsideContract, "outside-contract"),
    (ExecutorCannot, "executor-cannot"),
)


class HarnessError(Exception):
    """The harness itself did something impossible: exit status 4, never a finding."""


class Session:
    """Judges cases. One session lives in one process and keeps the context of the layout it saw last."""

    def __init__(
        self, target: Target, executor: Executor, on_operation: Callable[[str], None] = lambda name: None
    ) -> None:
        self.target = target
        self.executor = executor
        self._on_operation = on_operation
        self._arena: Arena | None = None
        self._layout: LayoutPlan | None = None
        self._bound: tuple[Bound, PrivateMemory, list[AccessSpan]] | None = None
        self._tensors: dict[tuple[int, int, int], torch.Tensor] = {}

    def check(self, case: Case) -> Outcome:
        """Judge a case. Raises InvalidCase if it is outside the preconditions, HarnessError if we are at fault."""
        seconds = Seconds()
        start = time.perf_counter()
        order = case.execution.program_order
        self.executor.program_order = ("random", case.execution.seed) if order == "shuffled" else order
        plan = plan_memory(case, self.target.mapping_bits)
        before = initial_image(case, plan)
        arena = self._room_for(plan)
        for offset, data in before.segments:
            arena.write(offset, data)
        seconds.build = time.perf_counter() - start

        verdicts = []
        for index in range(len(case.program)):
            start = time.perf_counter()
            expected = expect(case, plan, index, before)
            seconds.oracle += time.perf_counter() - start
            verdict, before = self._judge(case, plan, index, before, expected, seconds)
            verdicts.append(verdict)
            if verdict.status != "pass" or verdict.refused:
                break
        return Outcome(tuple(verdicts), seconds)

    def time_operations(self, case: Case, launches: int) -> list[list[float]]:
        """Seconds of each of `launches` calls of each operation, as a runner makes them; judges nothing."""
        plan = plan_memory(case, self.target.mapping_bits)
        arena = self._room_for(plan)
        for offset, data in initial_image(case, plan).segments:
            arena.write(offset, data)
        times: list[list[float]] = []
        for index in range(len(case.program)):
            bound, private, spans = self._bind(plan)
            self.executor.begin(arena, [*spans, *private.spans, *_array_spans(plan, index)])
            tensors = {name: self._array(span) for name, span in plan.arrays[index].items()}
            times.append([])
            for _ in range(launches):
                start = time.perf_counter()
                _run(bound, case, index, tensors)
                arena.read(0, 1)  # a GPU is done only when something was read back
                times[-1].append(time.perf_counter() - start)
        return times

    def _judge(
        self, case: Case, plan: MemoryPlan, index: int, before: Image, expected: Expected, seconds: Seconds
    ) -> tuple[Verdict, Image]:
        name = operation_name(case, index)
        self._on_operation(name)
        start = time.perf_counter()
        try:
            bound, private, spans = self._bind(plan)
            count_before = self._accepted_out(bound) if expected.accepted_out is not None else []
            self.executor.begin(self._require_arena(), [*spans, *private.spans, *_array_spans(plan, index)])
            _run(bound, case, index, {name: self._array(span) for name, span in plan.arrays[index].items()})
        except tuple(kind for kind, _ in _SKIPS) as error:
            reason = next(reason for kind, reason in _SKIPS if isinstance(error, kind))
            if reason == "outside-contract" and case.domain == "reachable":
                return self._fail(name, expected, refused_reachable_evidence(case, index, error)), before
            return Verdict(name, "skip", reason=reason, detail=str(error)), before
        except (HarnessError, TargetIncomplete, MemoryError, KeyboardInterrupt):
            raise
        except Exception as error:
            self._bound = None  # a context that failed half-way serves no other case
            return self._raised(case, plan, index, before, expected, error), before
        found = self._read(plan)
        seconds.run += time.perf_counter() - start

        start = time.perf_counter()
        failure = self._compare(case, plan, index, before, expected, found, bound, private, count_before)
        seconds.compare += time.perf_counter() - start
        if failure is not None:
            self._bound = None  # whatever went wrong may have damaged the context as well
            return self._fail(name, expected, failure), found
        launches = self.executor.launches
        if expected.expects_work and launches == 0:
            raise HarnessError(f"{self.target.name} passed {name} without launching a kernel, though work was expected")
        return Verdict(name, "pass", launches=launches, moves=len(expected.copies)), found

    def _raised(
        self, case: Case, plan: MemoryPlan, index: int, before: Image, expected: Expected, error: Exception
    ) -> Verdict:
        """The verdict on an exception: a refusal passes in the total domain if no device memory had changed.

        Raises KernelDoesNotCompile, or HarnessError if no code under test had a part in the exception.
        """
        name = operation_name(case, index)
        broken = compile_failure(error)
        if broken is not None:
            raise KernelDoesNotCompile(f"{self.target.name}: {broken}") from error
        owns = self.target.owns
        if not is_targets(error, owns):
            raise HarnessError(f"the harness's own code failed in {name}: {said(error)}") from error
        changed = any(True for _ in before.differences(self._read(plan)))
        if case.domain == "total" and not changed and is_refusal(error, owns):
            return Verdict(name, "pass", detail=said(error))
        return self._fail(name, expected, exception_evidence(case, index, error, owns, changed))

    def _compare(
        self,
        case: Case,
        plan: MemoryPlan,
        index: int,
        before: Image,
        expected: Expected,
        found: Image,
        bound: Bound,
        private: PrivateMemory,
        count_before: list[int],
    ) -> tuple[Signature, Evidence] | None:
        failure = access_evidence(case, plan, index, self.executor.faults())
        if failure is None:
            failure = byte_evidence(case, plan, index, before, expected, found)
        if failure is None and expected.accepted_out is not None:
            counts = expected.accepted_out + count_before[len(expected.accepted_out) :]
            failure = count_evidence(case, index, counts, self._accepted_out(bound))
        if failure is None and (damaged := private.damaged()):
            failure = private_evidence(case, index, damaged)
        return failure

    def _fail(self, name: str, expected: Expected, failure: tuple[Signature, Evidence]) -> Verdict:
        signature, evidence = failure
        return Verdict(
            name,
            "fail",
            signature=signature,
            evidence=evidence,
            launches=self.executor.launches,
            moves=len(expected.copies),
        )

    def _room_for(self, plan: MemoryPlan) -> Arena:
        """The arena, large enough for a plan; forgets what belonged to another layout."""
        if self._arena is None or plan.size > self._arena.size:
            self._layout = self._bound = self._arena = None
            self._arena = self.executor.allocate(max(plan.size, RESERVED[self.executor.device.type == "cpu"]))
        if self._layout is not plan.base:
            if self._layout is not None and self._layout.size > KEPT_BYTES:
                self._arena.discard(0, self._layout.size)
            self._layout = plan.base
            self._bound = None
            self._tensors.clear()
        return self._arena

    def _require_arena(self) -> Arena:
        if self._arena is None:
            raise HarnessError("a case is being judged without an arena")
        return self._arena

    def _bind(self, plan: MemoryPlan) -> tuple[Bound, PrivateMemory, list[AccessSpan]]:
        """The target's context for this layout; one serves all cases of a layout."""
        if self._bound is None:
            arena = self._require_arena()
            private = PrivateMemory(arena, *plan.base.private)
            bound = self.target.bind(plan.base.layout, _layout_tensors(arena, plan.base), private.allocate)
            self._bound = (bound, private, _layout_spans(plan.base))
        return self._bound

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

    def _accepted_out(self, bound: Bound) -> list[int]:
        return [int(value) for value in bound.accepted_out.tolist()]

    def _read(self, plan: MemoryPlan) -> Image:
        arena = self._require_arena()
        return Image([(start, arena.read(start, size).copy()) for start, size in plan.covered])


def _layout_tensors(arena: Arena, base: LayoutPlan) -> LayoutTensors:
    import torch

    layout = base.layout
    kinds = {1: torch.int8, 2: torch.bfloat16, 4: torch.float32, 8: torch.float64}
    states: list[list[list[torch.Tensor]]] = [[[] for _ in group.layers] for group in layout.groups]
    for place in base.states:
        state, item = place.state, place.state.item_size
        stride = state.block_stride // item
        if not isinstance(state, ConvState):
            shape = (layout.num_blocks, *state.shape)
            strides = [stride, *_contiguous(state.shape)]
        elif state.row_stride is None:
            shape, strides = (layout.num_blocks, state.window, state.dim), [stride, state.dim, 1]
        else:
            shape, strides = (layout.num_blocks, state.dim, state.window), [stride, state.row_stride // item, 1]
        size = (layout.num_blocks - 1) * state.block_stride + place.extent
        states[place.group][place.layer].append(arena.tensor(place.start, size, kinds[item], shape, strides))
    shape, strides = (layout.table_rows, layout.table_columns), [layout.table_columns, 1]
    tables = [arena.tensor(start, base.table_bytes, torch.int32, shape, strides) for start in base.tables]
    return LayoutTensors(states, tables)


def _contiguous(shape: tuple[int, ...]) -> list[int]:
    strides = [1]
    for length in reversed(shape[1:]):
        strides.insert(0, strides[0] * length)
    return strides


def _run(bound: Bound, case: Case, index: int, tensors: dict[str, torch.Tensor]) -> None:
    """Call the target's entry point for one operation."""
    operation = case.program[index]
    mapping = tensors.get("mapping")
    if mapping is not None:
        mapping = mapping[: len(operation.rows)]
    if isinstance(operation, Postprocess):
        bound.postprocess(
            PostprocessArrays(
                runner=operation.runner,
                num_requests=len(operation.rows),
                accepted=tensors["accepted"],
                state_column=tensors["state_column"],
                scheduled=tensors.get("scheduled"),
                computed=tensors.get("computed"),
                draft=tensors.get("draft"),
                new_computed=tensors.get("new_computed"),
                mapping=mapping,
            )
        )
    else:
        bound.precopy(
            PrecopyArrays(
                runner=operation.runner,
                num_requests=len(operation.rows),
                destination_column=tensors["destination_column"],
                source_column=tensors["source_column"],
                bias=tensors["bias"],
                mapping=mapping,
            )
        )


def _array_spans(plan: MemoryPlan, index: int) -> list[AccessSpan]:
    return [
        AccessSpan(span.start, span.size, span.name, f"{span.name} of operation {index}")
        for span in plan.arrays[index].values()
    ]


def _layout_spans(base: LayoutPlan) -> list[AccessSpan]:
    """What kernels may touch of a layout: each block of each state by itself, and each table."""
    spans = [
        AccessSpan(start, base.table_bytes, "table", f"block table of group {group}")
        for group, start in enumerate(base.tables)
    ]
    for place in base.states:
        kind = "conv" if isinstance(place.state, ConvState) else "temporal"
        name = f"group {place.group}, layer {place.layer}, {kind} state {place.index}"
        spans += [
            AccessSpan(place.block(block), place.extent, kind, f"{name}, block {block}")
            for block in range(base.layout.num_blocks)
        ]
    return spans
