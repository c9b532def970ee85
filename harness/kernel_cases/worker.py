"""A case worker is a worker process that judges kernel cases, with typed questions and answers."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from harness.case import CHECKS, Case, encode_case
from harness.check.outcome import RELATION, WITHIN, Evidence, Outcome, Seconds, Signature, Verdict
from harness.kernel_cases.recipe import ENCODER, JUDGED, CaseAssignment, CaseQuestion, JudgedCase
from harness.kernels.targets.vllm.base_release import BaseRelease
from harness.kernels.targets.vllm.edits import files_to_watch
from harness.worker.losses import WorkerLost
from harness.worker.process import Assignment, WorkerProcess

KernelLine = tuple[str, str, int]
"""File, function and line number."""


def assignment(
    target: str, executor: str, checks: tuple[str, ...] = CHECKS, base: BaseRelease | None = None
) -> Assignment:
    """What a worker for a target on an executor is started with. `base` is the base release of a checkout."""
    watched = None if base is None else msgspec.structs.replace(base, changed=files_to_watch(base))
    text = msgspec.json.encode(CaseAssignment(target, executor, checks, watched)).decode()
    return Assignment("harness.kernel_cases.judge:make", text)


def check(worker: WorkerProcess, case: Case, question: CaseQuestion, *, again: bool = True, index: int = -1) -> Outcome:
    """The outcome of `judged`."""
    return judged(worker, case, question, again=again, index=index).outcome


def judged(
    worker: WorkerProcess, case: Case, question: CaseQuestion, *, again: bool = True, index: int = -1
) -> JudgedCase:
    """Judge one case; the loss of the worker is an outcome as well. `again`: see WorkerProcess.judge.

    Raises InvalidCase, WorkerRefused, or WorkerError.
    """
    try:
        result = worker.judge(encode_case(case), ENCODER.encode(question), again=again, index=index)
    except WorkerLost as lost:
        return JudgedCase(lost_outcome(lost))
    return JUDGED.decode(result)


def lost_outcome(lost: WorkerLost) -> Outcome:
    """A loss as a verdict: a crash is a finding."""
    operation, _, relation = lost.stage.partition(WITHIN)
    oracle = RELATION + relation if relation else "isolation"
    signature = Signature(operation, oracle, lost.violation, "process", "-")
    lines = lost.last_words
    word = "" if lost.violation == "hang" else " its last output:"
    ending = f";{word} {' / '.join(lines[:3])}" if lines else ""
    evidence = Evidence(f"the worker process was lost ({lost.violation}) during {lost.stage}{ending}", (), 0, lines)
    return Outcome((Verdict(operation, "fail", signature=signature, evidence=evidence),), Seconds())


class CaseWorker(WorkerProcess):
    """One process for one target on one executor. `limit` is the maximum number of seconds for one operation."""

    def __init__(
        self,
        target: str,
        executor: str,
        *,
        limit: float,
        checks: tuple[str, ...] = CHECKS,
        on_notice: Callable[[str], None] = lambda text: None,
        base: BaseRelease | None = None,
    ) -> None:
        super().__init__(assignment(target, executor, checks, base), limit, on_notice)

    def check(
        self,
        case: Case,
        relations: tuple[str, ...] = (),
        most: int | None = None,
        *,
        instrumented: bool = True,
        again: bool = True,
        index: int = -1,
    ) -> Outcome:
        """Judge one case, and check relations if it passes. `most` and `instrumented`: see Session; the rest, and what
        is raised: see `check` above."""
        return check(self, case, CaseQuestion(relations, most, instrumented), again=again, index=index)

    def time_operations(self, case: Case, launches: int) -> list[list[float]]:
        """Seconds of each of `launches` calls of each operation of a case, for benchmarks."""
        answer = self.ask("time", ENCODER.encode((encode_case(case), launches)))
        return msgspec.msgpack.decode(answer, type=list[list[float]])


def kernel_lines(worker: WorkerProcess) -> tuple[list[KernelLine], list[KernelLine]]:
    """Kernel lines that have run in a worker, and all lines of the kernels it launched, in files as the code under test
    has them. Raises WorkerLost."""
    return msgspec.msgpack.decode(worker.ask("lines"), type=tuple[list[KernelLine], list[KernelLine]])


def forget_lines(worker: WorkerProcess) -> None:
    """Start the lines that have run in a worker anew. Raises WorkerLost."""
    worker.ask("forget lines")
