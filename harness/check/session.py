"""A session judges cases one after the other: it lays out a case on the workbench, runs its operations, and judges each
run.

Relations are checked for a case that has passed.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Sequence

import msgspec

from harness.case import Case, operation_name
from harness.check.assigned_lines import AssignedLines
from harness.check.evidence import HOST_ORACLE
from harness.check.explanation import deviations, diagnosed, explained, refuted
from harness.check.judging import OURS, SKIPPING, judge, verdict_on, verdict_on_exception, verdict_on_skip
from harness.check.operation_run import OperationRun, Task
from harness.check.operations.registry import expect
from harness.check.outcome import Evidence, Outcome, Seconds, Signature, Verdict
from harness.check.raised import type_and_message
from harness.check.relations import ask_relations
from harness.check.suspects import Suspects, scope_of
from harness.check.timing import time_operations
from harness.check.variants import run_variant
from harness.check.workbench import Workbench
from harness.kernels.executors.base import DeviceFault, Executor, ExecutorCannot
from harness.kernels.targets.base import Target
from harness.oracles.relations.base import CaseVariant, Run, RunStep


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
        self._bench = Workbench(target, executor)

    def check(
        self,
        case: Case,
        relations: Sequence[str] = (),
        most: int | None = None,
        *,
        instrumented: bool = True,
        explain: Callable[[Signature], bool] = lambda signature: False,
        diagnose: bool = True,
        suspects: Suspects | None = None,
    ) -> Outcome:
        """Judge a case; if it passes, check `relations`, in order, until `most` of them applied (None: all).

        Not `instrumented`: skip what only instrumented executors see, except for out-of-bounds accesses. `explain` says
        whether the evidence of a failure is to be explained: that runs the case once more; with a diagnosis, unless
        that comes later (not `diagnose`). A failure is added to `suspects`, which narrow its diagnosis.

        Raises InvalidCase if the case is outside the preconditions, HarnessError if the harness is at fault.
        """
        bench, seconds = self._bench, Seconds()
        bench.instrumented = instrumented
        start = time.perf_counter()
        try:
            plan, initial = bench.lay_out(case)
        except ExecutorCannot as error:
            skip = Verdict(operation_name(case.program[0]), "skip", reason="executor-cannot", detail=str(error))
            return Outcome((skip,), seconds)
        before = initial
        seconds.build = time.perf_counter() - start

        verdicts, steps = [], []
        for index in range(len(case.program)):
            start = time.perf_counter()
            bench.load(case, plan, index, before)
            expected = expect(case, plan, index, before)
            seconds.oracle += time.perf_counter() - start
            verdict, run = self._judge(Task(case, plan, index, before, expected), seconds)
            if verdict.status == "fail" and run is not None and verdict.signature is not None:
                whole = explain(verdict.signature)
                verdict = self._looked_into(
                    verdict, verdict.signature, run, whole=whole, diagnose=diagnose, suspects=suspects
                )
            elif run is not None and suspects is not None and verdict.judged:
                self._let_refute(run, suspects)
            before = before if run is None else run.found
            verdicts.append(verdict)
            if verdict.status != "pass" or verdict.refused:
                return Outcome(tuple(verdicts), seconds)
            steps.append(RunStep(before, expected.results, expected))
        start = time.perf_counter()
        asked = ask_relations(self.execute, Run(case, plan, initial, steps), relations, most)
        seconds.relations = time.perf_counter() - start
        return Outcome(tuple(verdicts), seconds, asked)

    def _judge(self, task: Task, seconds: Seconds) -> tuple[Verdict, OperationRun | None]:
        """The verdict on one operation, and its run; None if it did not end."""
        bench, executor = self._bench, self.executor
        self._on_operation(task.name)
        try:
            run = bench.run(task, seconds)
        except SKIPPING as error:
            return verdict_on_skip(task, executor.launches, error), None
        except OURS:
            raise
        except Exception as error:
            bench.end_with_the_device(error)
            bench.unbind()  # a context that failed half-way cannot be used for another case
            verdict = verdict_on_exception(task, self.target, executor.launches, error, lambda: bench.has_changed(task))
            return verdict, None
        start = time.perf_counter()
        verdict = verdict_on(run, self.target)
        seconds.compare += time.perf_counter() - start
        if verdict.status == "fail":
            bench.unbind()  # the failure may have damaged the context as well
        return verdict, run

    def _let_refute(self, run: OperationRun, suspects: Suspects) -> None:
        """Have a run that was right refute suspects."""
        scope = scope_of(run)
        names = suspects.questionable(scope)
        if not names:
            return
        try:
            shown = refuted(run, names, watched=self._watched(run))
        except Exception as error:  # a case that passes is not lost because of deviations
            warnings.warn(f"{run.name}: suspects could not be asked: {type_and_message(error)}", stacklevel=2)
            shown = ()
        suspects.refute(scope, shown)

    def _watched(self, run: OperationRun) -> bool:
        """Whether accesses that are not allowed were refused."""
        return self.executor.instrumented and "memory" in run.case.execution.checks

    def _looked_into(
        self,
        verdict: Verdict,
        signature: Signature,
        run: OperationRun,
        *,
        whole: bool,
        diagnose: bool,
        suspects: Suspects | None,
    ) -> Verdict:
        """A failure, with its explanation if that is wanted (`whole`), and recorded among the suspects."""
        assert verdict.evidence is not None
        watched = self._watched(run)
        self._on_operation(run.name)  # looking into it takes time: the worker is not silent meanwhile
        try:
            if suspects is not None and suspects.wants(signature):
                found = deviations(run, watched=watched, among=suspects.candidates)
                if found is not None:
                    suspects.add(signature, scope_of(run), found)
            if not whole:
                return verdict
            run, evidence = self._recorded(run, signature, verdict.evidence)
            self._on_operation(run.name)
            assigned = self._assigned(run) if signature.oracle == HOST_ORACLE else None
            evidence = explained(run, evidence, assigned)
            if diagnose:
                evidence = diagnosed(run, signature, evidence, suspects or Suspects(), watched=watched)
        except (DeviceFault, *OURS):
            raise
        except Exception as error:  # a finding is not lost because it could not be explained
            text = f"it could not be explained, which is a fault of the harness: {type_and_message(error)}"
            warnings.warn(f"{signature}: {text}", stacklevel=2)
            details = (*verdict.evidence.details, text)
            evidence = msgspec.structs.replace(verdict.evidence, details=details)
        return msgspec.structs.replace(verdict, evidence=evidence)

    def _recorded(self, run: OperationRun, signature: Signature, evidence: Evidence) -> tuple[OperationRun, Evidence]:
        """A second run that is recorded, with its evidence, if the executor can record and that run fails in the same
        way; else the first one."""
        if self.executor.can_record:
            again = self._recorded_again(run)
            failure = None if again is None else judge(self._as_watched(again))
            if again is not None and failure is not None and failure[0] == signature:
                return again, failure[1]
        return run, evidence

    def _recorded_again(self, failed: OperationRun) -> OperationRun | None:
        """Another run of a case as far as the operation that failed, recorded; None if it does not get there."""
        bench, case = self._bench, failed.case
        bench.unbind()
        bench.recording = True
        try:
            plan, before = bench.lay_out(case)
            for index in range(failed.index + 1):
                self._on_operation(operation_name(case.program[index]))
                bench.load(case, plan, index, before)
                run = bench.run(Task(case, plan, index, before, expect(case, plan, index, before)), Seconds())
                before = run.found
        except OURS:
            raise
        except Exception as error:  # the first run is the finding: this one may end in any other way
            bench.end_with_the_device(error)
            return None
        finally:
            bench.recording = False
            bench.unbind()
        return run

    def _assigned(self, failed: OperationRun) -> AssignedLines | None:
        """The lines of the host code that assign what the host sees, from one more run; None if it does not end."""
        lines = self._bench.assigned = AssignedLines(self.target.owns)
        try:
            return None if self._recorded_again(failed) is None else lines
        finally:
            self._bench.assigned = None

    def _as_watched(self, run: OperationRun) -> OperationRun:
        """A recorded run as it is to be judged: without races, unless the case watches for them."""
        watched = self._bench.instrumented and "races" in run.case.execution.checks
        return run if watched else dataclasses.replace(run, recorded=())

    def unbind(self) -> None:
        """Have the next operation make the target's context anew."""
        self._bench.unbind()

    def execute(self, variant: CaseVariant, earlier: Sequence[Run], relation: str) -> Run:
        """Run a variant of a case for a relation: see run_variant."""
        return run_variant(self._bench, self._on_operation, variant, earlier, relation)

    def time_operations(self, case: Case, launches: int) -> list[list[float]]:
        """Seconds of each of `launches` calls of each operation, as a runner makes them; judges nothing but races."""
        return time_operations(self._bench, case, launches)
