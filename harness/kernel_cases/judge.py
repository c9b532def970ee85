"""The judge of kernel cases: one target on one executor, in a worker process."""

from __future__ import annotations

import contextlib
import functools
import os
import time

import msgspec

from harness.case import Case, InvalidCase, decode_case, encode_case
from harness.check.outcome import Signature
from harness.code_lines import source_name
from harness.kernel_cases.recipe import (
    ENCODER,
    QUESTIONS,
    RECIPES,
    CaseAssignment,
    CaseRecipe,
    JudgedCase,
    with_regimes,
)
from harness.kernels.cache_directory import cache_directory
from harness.subject.edits import QUESTION, answer
from harness.worker import stack_location
from harness.worker.judge import Channel, Judge
from harness.worker.messages import JudgeRange


def make(text: str, channel: Channel) -> Judge:
    """Load a target on an executor. Raises Refusal if one of them is not available."""
    assignment = msgspec.json.decode(text, type=CaseAssignment)
    if assignment.executor == "interpreter":
        os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported, so before anything else
    return CaseJudge(assignment, channel)


class CaseJudge(Judge):
    """Judges with its own session."""

    def __init__(self, assignment: CaseAssignment, channel: Channel) -> None:
        super().__init__(channel)
        from harness.kernels.executors.registry import create_executor
        from harness.kernels.targets.registry import load_target

        # First: it refuses in one line if torch cannot be imported.
        executor = create_executor(assignment.executor, assignment.checks)
        import torch

        torch.set_num_threads(1)  # a worker has one core; several of them would wait for each other's threads
        from harness.check.session import Session
        from harness.kernel_cases.ran_edits import RanEdits

        target = load_target(assignment.target, executor)
        self._session = Session(target, executor, channel.at)
        self._explained: dict[Signature, bool] = {}
        """Signatures that were explained, and whether only in the total domain."""
        base = assignment.base
        self._edits = None if base is None or not base.changed else RanEdits(assignment.target, base, executor)
        stack_location.answer(executor, target.owns)

    def judge(self, case: bytes, how: bytes) -> bytes:
        from harness.engines.random import case_at
        from harness.kernel_cases.diagnosing import narrowed

        asked, decoded = QUESTIONS.decode(how), decode_case(case)
        suspects = None
        if asked.numbers:
            recipe = _recipe(asked.recipe).recipe
            suspects = narrowed(self._session, lambda number: case_at(recipe, number), asked.numbers)
        edits = self._edits if asked.explain else None
        if edits is not None:
            self._session.unbind()  # edits may be in what makes the context
        with contextlib.nullcontext() if edits is None else edits.apart():
            outcome = self._session.check(
                decoded,
                asked.relations,
                asked.most,
                instrumented=asked.instrumented,
                explain=lambda signature: asked.explain,
                suspects=suspects,
            )
            self._session.executor.settle()
            ran = () if edits is None or outcome.failure is None else tuple(edits.so_far())
        return ENCODER.encode(JudgedCase(outcome, edits=ran))

    def judge_drawn(self, recipe: bytes, index: int) -> tuple[bytes, bytes | None, float]:
        from harness.engines.random import case_at

        began = time.perf_counter()
        read = _recipe(recipe)
        case = case_at(read.recipe, index)
        drawn = time.perf_counter() - began
        return *self._judge(read, index, case), drawn

    def range(self, request: JudgeRange) -> int:
        """A case that Hypothesis draws is sent before it is judged, since it cannot be drawn again."""
        read = _recipe(request.recipe)
        if read.engine == "random":
            return super().range(request)
        # Hypothesis keeps a folder, by default in the current one.
        os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(cache_directory() / "hypothesis"))
        from harness.engines.hypothesis import explore

        def judge(index: int, case: Case, drawn: float) -> bool:
            self.channel.index = index
            self.channel.drawn(encode_case(case))
            result, failed = self._judge(read, index, case)
            self.channel.result(result, failed, drawn)
            return (failed is None or not request.fail_fast) and not self.channel.stopped

        return explore(read.recipe, request.start, request.stop, request.deadline, judge)

    def _judge(self, read: CaseRecipe, index: int, case: Case) -> tuple[bytes, bytes | None]:
        """The result of a case of a campaign, and the case if it failed."""
        policy = read.policy
        try:
            relations = policy.at(read.recipe.seed, index)
            outcome = self._session.check(
                case,
                relations,
                policy.most,
                explain=lambda one: self._represents(one, case),
                diagnose=False,
            )
            self._session.executor.settle()
        except InvalidCase as error:
            raise RuntimeError(f"the generators drew an invalid case, number {index}: {error}") from error
        result = ENCODER.encode(with_regimes(case, outcome))
        return result, encode_case(case) if outcome.failure else None

    def _represents(self, signature: Signature, case: Case) -> bool:
        """Whether a failing case of a campaign may be the one that represents its signature, as far as this worker
        knows: the first one, or the first reachable one."""
        total = case.domain != "reachable"
        if self._explained.get(signature, True) <= total and signature in self._explained:
            return False
        self._explained[signature] = total
        return True

    def has_lost_its_device(self, error: Exception) -> bool:
        return self._session.executor.is_device_fault(error)

    def ask(self, question: str, content: bytes) -> bytes:
        """`lines`: executed kernel lines, and all known ones; `forget lines`: start them anew. QUESTION: which edited
        lines ran. `time`: seconds of each call of each operation of a case."""
        if question == QUESTION:
            return answer((), ()) if self._edits is None else self._edits.answer()
        if question == "lines":
            executor = self._session.executor
            answer_lines = [
                sorted((source_name(file), function, line) for file, function, line in lines)
                for lines in (executor.executed_lines(), executor.known_lines())
            ]
            return ENCODER.encode(answer_lines)
        if question == "forget lines":
            self._session.executor.forget_lines()
            return b""
        if question == "time":
            case, launches = msgspec.msgpack.decode(content, type=tuple[bytes, int])
            return ENCODER.encode(self._session.time_operations(decode_case(case), launches))
        return super().ask(question, content)


@functools.lru_cache(maxsize=4)
def _recipe(text: bytes) -> CaseRecipe:
    return RECIPES.decode(text)
