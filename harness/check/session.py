"""A session is a target on an executor, ready to judge cases one after the other.

Judging a case: build its memory, copy it to the executor's arena, let the target run one operation, read everything
back, compare with what the oracle expects; then the next operation, on the memory the last one left.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from harness.case import Case, Check, operation_name
from harness.case.case import Poison
from harness.check.evidence import (
    Seen,
    access_evidence,
    byte_evidence,
    exception_evidence,
    private_evidence,
    refused_reachable_evidence,
    result_evidence,
)
from harness.check.layout_tensors import layout_tensors
from harness.check.operations.call import Before
from harness.check.operations.registry import call_of
from harness.check.outcome import WITHIN, Evidence, Outcome, Seconds, Signature, SkipReason, Verdict
from harness.check.private_memory import PrivateMemory, ReserveUsedUp
from harness.check.raised import compile_failure, is_refusal, is_targets, said
from harness.check.relations import VariantFailed, VariantRefused, ask_relations
from harness.check.shadowing import Shadowing
from harness.check.sight import race_evidence, use_evidence
from harness.check.spans import array_spans, layout_spans
from harness.kernels.executors.base import (
    AccessSpan,
    AllowedSpans,
    Arena,
    DeviceFault,
    Executor,
    ExecutorCannot,
    KernelDoesNotCompile,
)
from harness.kernels.targets.base import (
    Bound,
    OutsideContract,
    Target,
    TargetIncomplete,
    TargetLacks,
)
from harness.memory import ArraySpan, Image, LayoutPlan, MemoryPlan, initial_image, plan_memory, write_arrays
from harness.oracles.memory import Expected, expect
from harness.oracles.races import find_races
from harness.oracles.relations.base import Run, Step, Variant

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
        self,
        target: Target,
        executor: Executor,
        on_operation: Callable[[str], None] = lambda name: None,
    ) -> None:
        self.target = target
        self.executor = executor
        self._on_operation = on_operation
        self._sighted = True
        self._shadowing: Shadowing | None = None
        self._arena: Arena | None = None
        self._layout: LayoutPlan | None = None
        self._bound: tuple[Bound, PrivateMemory, list[AccessSpan]] | None = None
        self._tensors: dict[tuple[int, int, int], torch.Tensor] = {}

    def check(
        self, case: Case, relations: Sequence[str] = (), most: int | None = None, *, sighted: bool = True
    ) -> Outcome:
        """Judge a case; if it passes, ask `relations`, in order, until `most` of them said something (None: all).

        Not `sighted`: leave out what only instrumented executors see beside the bytes and accesses out of bounds.

        Raises InvalidCase if the case is outside the preconditions, HarnessError if we are at fault.
        """
        self._sighted = sighted
        seconds = Seconds()
        start = time.perf_counter()
        try:
            plan, initial = self._lay_out(case)
        except ExecutorCannot as error:
            skip = Verdict(operation_name(case.program[0]), "skip", reason="executor-cannot", detail=str(error))
            return Outcome((skip,), seconds)
        before = initial
        seconds.build = time.perf_counter() - start

        verdicts, steps = [], []
        for index in range(len(case.program)):
            start = time.perf_counter()
            self._load(case, plan, index, before)
            expected = expect(case, plan, index, before)
            seconds.oracle += time.perf_counter() - start
            verdict, before = self._judge(case, plan, index, before, expected, seconds)
            verdicts.append(verdict)
            if verdict.status != "pass" or verdict.refused:
                return Outcome(tuple(verdicts), seconds)
            steps.append(Step(before, expected.results, expected))
        start = time.perf_counter()
        asked = ask_relations(self, Run(case, plan, initial, steps), relations, most)
        seconds.relations = time.perf_counter() - start
        return Outcome(tuple(verdicts), seconds, asked)

    def execute(self, variant: Variant, earlier: Sequence[Run], relation: str) -> Run:
        """Run a variant of a case for a relation; `earlier` are those run before it.

        The memory oracle is asked only if the variant wants it. Raises VariantFailed, VariantRefused, TargetLacks,
        OutsideContract or ExecutorCannot, and InvalidCase if the variant needs more memory than a case may.
        """
        case, target = variant.case, self.target
        if variant.temporal_tiles is not None:
            target = target.with_temporal_tiles(variant.temporal_tiles)
        plan, image = self._lay_out(case, variant, earlier)
        if variant.fresh or target is not self.target:
            self._bound = None
        steps: list[Step] = []
        launches = 0
        try:
            for index in range(len(case.program)):
                self._on_operation(f"{operation_name(case.program[index])}{WITHIN}{relation}")
                before = steps[-1].image if steps else image
                steps.append(self._execute(case, plan, index, before, target, variant))
                launches += self.executor.launches
        except BaseException:
            self._bound = None
            raise
        if target is not self.target:
            self._bound = None
        return Run(case, plan, image, steps, launches)

    def _execute(
        self, case: Case, plan: MemoryPlan, index: int, before: Image, target: Target, variant: Variant
    ) -> Step:
        self._load(case, plan, index, before)
        call = call_of(case.program[index])
        expected = expect(case, plan, index, before) if variant.judged or call.by_harness else None
        if call.by_harness and variant.amend is not None:
            assert expected is not None
            variant.amend(index, plan, expected.image)
        try:
            poison: Poison = "B" if variant.fresh else "A"
            found, seen, private = self._call(case, plan, index, before, expected, target, poison)
        except (TargetLacks, OutsideContract, ExecutorCannot, HarnessError, TargetIncomplete, ReserveUsedUp):
            raise
        except Exception as error:
            self._end_with_the_device(error)
            verdict = self._raised(case, plan, index, before, Expected(before), error)
            if verdict.signature is None or verdict.evidence is None:
                raise VariantRefused(verdict.detail) from error
            raise VariantFailed(verdict.signature, verdict.evidence) from error
        if expected is not None:
            failure = self._compare(case, plan, index, before, expected, found, private, seen)
        else:
            failure = self._seen_running(case, plan, index)
            if failure is None and (damaged := private.damaged()):
                failure = private_evidence(case, index, damaged)
        if failure is not None:
            raise VariantFailed(*failure)
        results = {name: dict(enumerate(values.tolist())) for name, values in seen.after.items()}
        return Step(found, results, expected)

    def _lay_out(
        self, case: Case, variant: Variant | None = None, earlier: Sequence[Run] = ()
    ) -> tuple[MemoryPlan, Image]:
        """Write the memory of a case, prepared as a variant wants it, into the arena."""
        order = case.execution.program_order
        self.executor.program_order = ("random", case.execution.seed) if order == "shuffled" else order
        self.executor.interleave, self.executor.schedule_seed = case.execution.interleave, case.execution.seed
        self.executor.warps_apart = case.execution.warps == "apart"
        self._watch(case, variant)
        plan = plan_memory(case, self.target.mapping_bits)
        image = initial_image(case, plan)
        if variant is not None and variant.prepare is not None:
            variant.prepare(plan, image, earlier)
        arena = self._room_for(plan)
        before = arena.address
        self.executor.raise_addresses(arena, case.execution.high_addresses)
        if arena.address != before:
            self._bound = None
            self._tensors.clear()
        arena.write_all(plan.covered, image.data)
        shadow = self.executor.shadow(arena)
        self._shadowing = None if shadow is None else Shadowing(case, plan, shadow)
        return plan, image

    def _watch(self, case: Case, variant: Variant | None) -> None:
        """Choose what the executor watches. Relations compare what their variants do: nothing is followed there."""
        checks: list[Check] = [
            check
            for check in case.execution.checks
            if check == "memory" or (self._sighted and (variant is None or check != "undefined"))
        ]
        self.executor.watch(checks)

    def time_operations(self, case: Case, launches: int) -> list[list[float]]:
        """Seconds of each of `launches` calls of each operation, as a runner makes them; judges nothing but races."""
        plan = plan_memory(case, self.target.mapping_bits)
        arena = self._room_for(plan)
        image = initial_image(case, plan)
        arena.write_all(plan.covered, image.data)
        times: list[list[float]] = []
        for index in range(len(case.program)):
            bound, private, spans = self._bind(plan)
            allowed = AllowedSpans(private.together_with(spans), array_spans(plan, index))
            tensors = self._arguments(case, plan, index)
            call = call_of(case.program[index])
            host = call.prepare(bound, case, index, Before(plan, image))
            times.append([])
            for _ in range(launches):
                self.executor.begin(arena, allowed)
                start = time.perf_counter()
                call.run(bound, case, index, tensors, host)
                self.executor.transfers.wait()
                for launch in self.executor.recorded():
                    find_races(launch)
                arena.read(0, 1)  # a GPU is done only when something was read back
                times[-1].append(time.perf_counter() - start)
        return times

    def _judge(
        self, case: Case, plan: MemoryPlan, index: int, before: Image, expected: Expected, seconds: Seconds
    ) -> tuple[Verdict, Image]:
        name = operation_name(case.program[index])
        self._on_operation(name)
        start = time.perf_counter()
        try:
            found, seen, private = self._call(case, plan, index, before, expected)
        except tuple(kind for kind, _ in _SKIPS) as error:
            reason = next(reason for kind, reason in _SKIPS if isinstance(error, kind))
            if reason == "outside-contract" and case.domain == "reachable":
                return self._fail(name, expected, refused_reachable_evidence(case, index, error)), before
            return Verdict(name, "skip", reason=reason, detail=str(error)), before
        except (HarnessError, TargetIncomplete, ReserveUsedUp, KeyboardInterrupt):
            raise
        except Exception as error:
            self._end_with_the_device(error)
            self._bound = None  # a context that failed half-way serves no other case
            return self._raised(case, plan, index, before, expected, error), before
        seconds.run += time.perf_counter() - start

        start = time.perf_counter()
        failure = self._compare(case, plan, index, before, expected, found, private, seen)
        seconds.compare += time.perf_counter() - start
        if failure is not None:
            self._bound = None  # whatever went wrong may have damaged the context as well
            return self._fail(name, expected, failure), found
        launches = self.executor.launches
        if expected.expects_work and launches == 0:
            raise HarnessError(f"{self.target.name} passed {name} without launching a kernel, though work was expected")
        return Verdict(name, "pass", launches=launches, moves=len(expected.copies)), found

    def _call(
        self,
        case: Case,
        plan: MemoryPlan,
        index: int,
        before: Image,
        expected: Expected | None,
        target: Target | None = None,
        poison: Poison = "A",
    ) -> tuple[Image, Seen, PrivateMemory]:
        """Let the target run one operation: memory afterwards, and what the host saw. Raises what the target raises,
        unless that is what has to happen."""
        call = call_of(case.program[index])
        later = call.unbound(case, index)
        if later:
            self._bound = None
        bound, private, spans = self._bind(plan, target, poison, later)
        host = call.prepare(bound, case, index, Before(plan, before))
        seen_before = call.results(bound, case, index, host)
        transfers = self.executor.transfers
        transfers.forget()
        allowed = AllowedSpans(private.together_with(spans), array_spans(plan, index))
        self.executor.begin(self._require_arena(), allowed)
        shadowing = self._shadowing
        if shadowing is not None:
            shadowing.begin(index, private)
        self.executor.on_launch = None if shadowing is None else lambda: shadowing.refresh(private)
        refused = False
        if call.by_harness:
            assert expected is not None
            self._require_arena().write_all(plan.covered, expected.image.data)
            if self._shadowing is not None:
                self._shadowing.fill(before, expected)
        else:
            arena, arguments = self._require_arena(), self._arguments(case, plan, index)
            watching = contextlib.nullcontext() if shadowing is None else shadowing.following(arena, private)
            try:
                with private.handed_out, watching:
                    call.run(bound, case, index, arguments, host)
            except Exception as error:
                if expected is None or not self._has_to_raise(expected, error):
                    raise
                refused = True
        transfers.wait()
        if later:
            self._bound = None  # bound as one entry point needs it, not as all of them do
        seen = Seen(seen_before, call.results(bound, case, index, host), refused, tuple(transfers.late_writes))
        return self._read(plan), seen, private

    def _has_to_raise(self, expected: Expected, error: Exception) -> bool:
        """Whether the target has declined, in words of its own, what it has to decline."""
        owns = self.target.owns
        return expected.raises is not None and expected.raises in str(error) and is_refusal(error, owns)

    def _load(self, case: Case, plan: MemoryPlan, index: int, before: Image) -> None:
        """Bring the arguments of an operation into memory, where operations share them."""
        if not case.linked:
            return
        write_arrays(case, plan, index, before)
        arena = self._require_arena()
        for span in plan.arrays[index].values():
            arena.write(span.start, before.view(span.start, span.size))
        if self._shadowing is not None:
            self._shadowing.load(index)

    def _raised(
        self, case: Case, plan: MemoryPlan, index: int, before: Image, expected: Expected, error: Exception
    ) -> Verdict:
        """The verdict on an exception: a refusal passes in the total domain if no device memory had changed.

        Raises KernelDoesNotCompile, or HarnessError if no code under test had a part in the exception.
        """
        name = operation_name(case.program[index])
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
        private: PrivateMemory,
        seen: Seen,
    ) -> tuple[Signature, Evidence] | None:
        failure = self._seen_running(case, plan, index)
        if failure is None and self._shadowing is not None:
            failure = self._shadowing.end(index, before, expected, private)
        if failure is None:
            failure = byte_evidence(case, plan, index, before, expected, found)
        if failure is None:
            failure = result_evidence(case, index, expected, seen)
        if failure is None and (damaged := private.damaged()):
            failure = private_evidence(case, index, damaged)
        return failure

    def _seen_running(self, case: Case, plan: MemoryPlan, index: int) -> tuple[Signature, Evidence] | None:
        """What the executor saw while kernels ran, whatever the bytes are."""
        faults = self.executor.faults()
        failure = access_evidence(case, plan, index, faults)
        if failure is None and self._sighted:
            failure = use_evidence(case, plan, index, faults)
        if failure is None and self._sighted:
            recorded = self.executor.recorded()
            identical = "identical-stores" in case.execution.checks
            failure = race_evidence(case, plan, index, recorded, identical=identical)
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

    def _end_with_the_device(self, error: Exception) -> None:
        """Raise DeviceFault if an exception says that the device is gone: nothing can be judged here any more."""
        if self.executor.is_device_fault(error):
            raise DeviceFault(" ".join(str(error).split())) from error

    def _room_for(self, plan: MemoryPlan) -> Arena:
        """The arena, large enough for a plan; forgets what belonged to another layout."""
        if self._arena is None or plan.size > self._arena.size:
            # Everything that holds on to the old arena goes first: a device may not have room for both.
            self._layout = self._bound = self._arena = None
            self._tensors.clear()
            self._arena = self.executor.allocate(max(plan.size, RESERVED[self.executor.device.type == "cpu"]))
        if self._layout is not plan.base:
            if self._layout is not None and self._layout.size > KEPT_BYTES:
                self._arena.discard(0, self._layout.size)
                if (shadow := self.executor.shadow(self._arena)) is not None:
                    shadow.discard(0, self._layout.size)
            self._layout = plan.base
            self._bound = None
            self._tensors.clear()
        return self._arena

    def _require_arena(self) -> Arena:
        if self._arena is None:
            raise HarnessError("a case is being judged without an arena")
        return self._arena

    def _bind(
        self, plan: MemoryPlan, target: Target | None = None, poison: Poison = "A", later: bool = False
    ) -> tuple[Bound, PrivateMemory, list[AccessSpan]]:
        """The target's context for this layout; one serves all cases of a layout. `later`: the first use binds it."""
        if self._bound is None:
            arena = self._require_arena()
            private = PrivateMemory(arena, *plan.base.private, poison, self.target.is_metadata)
            bind = (target or self.target).bind_later if later else (target or self.target).bind
            tensors = layout_tensors(arena, plan.base)
            with private.handed_out:
                bound = bind(plan.base.layout, tensors, private.allocate)
            self._bound = (bound, private, layout_spans(plan.base))
        return self._bound

    def _arguments(self, case: Case, plan: MemoryPlan, index: int) -> dict[str, torch.Tensor]:
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

    def _read(self, plan: MemoryPlan) -> Image:
        return Image.of(plan.covered, self._require_arena().read_all(plan.covered))
