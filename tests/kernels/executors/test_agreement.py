"""One case gives the same verdict and the same bytes on every executor, for correct kernels and for mutated ones."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from harness.case import Execution
from harness.check.outcome import Evidence, Verdict
from harness.check.worker_process import WorkerProcess
from harness.engines.random import Recipe, case_at
from harness.kernels.executors.registry import executor_class

# Mutations whose accesses stay within what kernels may touch: elsewhere a checking executor keeps the damage away.
TARGETS = ("builtin", "builtin+wrong-group", "builtin+conv-shift-off-by-one", "builtin+lost-reset")
RELEASES = ("vllm==0.33.0", "vllm==0.33.0+wrong-group")


def judgements(target: str, executor: str, recipe: Recipe, cases: int) -> Iterator[list[tuple[object, ...]]]:
    """Of each case, everything an executor decides about it: with no checks but the bytes."""
    with WorkerProcess(target, executor, limit=300.0, checks=()) as worker:
        worker.wait_ready()
        for index in range(cases):
            case = msgspec.structs.replace(case_at(recipe, index), execution=Execution())
            yield [judgement(verdict) for verdict in worker.check(case).verdicts]


def judgement(verdict: Verdict) -> tuple[object, ...]:
    evidence: Evidence | None = verdict.evidence
    bytes_found = None if evidence is None else (evidence.differences, evidence.total_bytes, evidence.details)
    return (verdict.operation, verdict.status, verdict.reason, str(verdict.signature), bytes_found)


def agree(target: str, executors: tuple[str, str], recipe: Recipe, cases: int) -> None:
    first, second = (list(judgements(target, executor, recipe, cases)) for executor in executors)
    for index, (one, other) in enumerate(zip(first, second, strict=True)):
        assert one == other, f"{target}, case {index}"
    failed = sum(row[1] == "fail" for rows in first for row in rows)
    assert (failed > 0) == ("+" in target)


def recipe(scale: str, seed: int = 11) -> Recipe:
    domains = ("reachable", "total")
    return Recipe(seed=seed, domains=domains, operations=("postprocess", "precopy"), scale=scale)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["builtin", "builtin+wrong-group"])
def test_native_and_interpreter_agree(target: str) -> None:
    agree(target, ("native", "interpreter"), recipe("small"), 20)


@pytest.mark.release
def test_native_and_interpreter_agree_on_a_release() -> None:
    agree("vllm==0.33.0", ("native", "interpreter"), recipe("small"), 12)


@pytest.mark.slow
@pytest.mark.parametrize("target", [*TARGETS, *RELEASES])
def test_native_and_interpreter_agree_on_many(target: str) -> None:
    agree(target, ("native", "interpreter"), recipe("small", seed=12), 160)


# On a GPU programs run side by side: the faults here are those that make no two programs write one byte.
ORDERLESS = (
    "builtin",
    "builtin+conv-shift-off-by-one",
    "builtin+lost-reset",
    "vllm==0.33.0",
    "vllm==0.33.0+lost-reset",
)


@pytest.mark.gpu
@pytest.mark.parametrize("target", ORDERLESS)
def test_native_and_cuda_agree(target: str) -> None:
    agree(target, ("native", "cuda"), recipe("full"), 112)


@pytest.mark.gpu
@pytest.mark.parametrize("target", ["builtin", "vllm==0.33.0"])
def test_cuda_and_interpreter_agree(target: str) -> None:
    reason = executor_class("interpreter").unavailable()
    if reason is not None:
        pytest.skip(reason)
    agree(target, ("cuda", "interpreter"), recipe("small"), 12)
