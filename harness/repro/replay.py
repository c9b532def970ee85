"""Replaying is asking whether a finding is still there: FAILED, FIXED, or skipped with a reason."""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.case import InvalidCase
from harness.check.outcome import Outcome
from harness.check.worker_process import WorkerProcess
from harness.kernels.executors.registry import executor_class
from harness.oracles.relations.registry import UnknownRelation, relation
from harness.repro.format import Repro

Answer = Literal["FAILED", "FIXED", "SKIPPED"]


class Replayed(msgspec.Struct, frozen=True):
    """The answer and what it rests on; `same` says whether a failure has the recorded signature."""

    answer: Answer
    target: str
    executor: str
    same: bool
    outcome: Outcome

    @property
    def exit_status(self) -> int:
        return {"FIXED": 0, "FAILED": 1, "SKIPPED": 3}[self.answer]


def recorded_target(repro: Repro) -> str:
    """The target a repro names, if a file may choose it: our own or a release, never a path or a plug-in.

    Raises InvalidCase otherwise.
    """
    name = repro.origin.target
    base = name.split("+", 1)[0]
    if base == "builtin" or base.startswith("vllm=="):
        return name
    raise unnamed_target(name)


def unnamed_target(name: str) -> InvalidCase:
    """The refusal of a file that was found on a target `name` that no file may choose."""
    return InvalidCase(
        f"the file was found on {name!r}, and a file may not choose what code of this machine runs: "
        "say on which target with --target"
    )


def relations_to_ask(repro: Repro) -> tuple[str, ...]:
    """The relation that has to be asked for the finding to show, if one saw it. Raises InvalidCase if there is none
    of that name."""
    name = repro.signature.relation
    if name is None:
        return ()
    try:
        return (relation(name).name,)
    except UnknownRelation as error:
        raise InvalidCase(f"the file's signature names an {error}") from error


def replay(repro: Repro, target: str, executor: str, limit: float) -> Replayed:
    """Run a repro's case. Raises WorkerRefused, InvalidCase or WorkerError."""
    with WorkerProcess(target, executor, limit=limit) as worker:
        worker.wait_ready()
        outcome = worker.check(repro.case, relations_to_ask(repro), sighted=repro.signature.sighted)
    answer: Answer
    if outcome.failure is not None:
        answer = "FAILED"
    elif any(verdict.status == "skip" for verdict in (*outcome.verdicts, *outcome.relations)):
        answer = "SKIPPED"
    elif repro.signature.sighted and not executor_class(executor).instrumented:
        answer = "SKIPPED"  # nobody looked
    else:
        answer = "FIXED"
    return Replayed(answer, target, executor, outcome.signature == repro.signature, outcome)
