"""One case gives the same verdict and the same bytes on every executor, for correct kernels and for mutated ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import pytest

from harness.case import Case, ConvLayout, ConvState, Execution, Runner
from harness.check.outcome import Evidence, Verdict
from harness.engines.random import Recipe, case_at
from harness.generators.operations import OperationName
from harness.kernel_cases.worker import CaseWorker
from harness.kernels.executors.registry import executor_class

# Mutations whose accesses stay within what kernels may touch: elsewhere a checking executor keeps the damage away.
TARGETS = ("builtin", "builtin+wrong-group", "builtin+conv-shift-off-by-one", "builtin+lost-reset")
RELEASES = ("vllm==0.33.0", "vllm==0.33.0+wrong-group")


class Judgement(NamedTuple):
    """Everything an executor decides about one operation."""

    operation: str
    status: str
    reason: str | None
    signature: str
    found: object
    launches: int


def judgements(target: str, executor: str, cases: Sequence[Case]) -> Iterator[list[Judgement]]:
    """Of each case, with no checks but the bytes."""
    with CaseWorker(target, executor, limit=300.0, checks=()) as worker:
        worker.wait_ready()
        for case in cases:
            yield [judgement(verdict) for verdict in worker.check(case).verdicts]


def judgement(verdict: Verdict) -> Judgement:
    evidence: Evidence | None = verdict.evidence
    found = None if evidence is None else (evidence.differences, evidence.total_bytes, evidence.details)
    return Judgement(verdict.operation, verdict.status, verdict.reason, str(verdict.signature), found, verdict.launches)


def drawn(recipe: Recipe, cases: int) -> list[Case]:
    return [msgspec.structs.replace(case_at(recipe, index), execution=Execution()) for index in range(cases)]


def agree(target: str, executors: tuple[str, str], cases: Sequence[Case]) -> list[Judgement]:
    """Have both executors judge the cases; what they said, if it was the same."""
    first, second = (list(judgements(target, executor, cases)) for executor in executors)
    for index, (one, other) in enumerate(zip(first, second, strict=True)):
        assert one == other, f"{target}, case {index}"
    said = [row for rows in first for row in rows]
    assert any(row.status == "fail" for row in said) == ("+" in target)
    return said


def recipe(scale: str, seed: int = 11) -> Recipe:
    domains = ("reachable", "total")
    return Recipe(seed=seed, domains=domains, operations=("postprocess", "precopy"), scale=scale)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["builtin", "builtin+wrong-group"])
def test_native_and_interpreter_agree(target: str) -> None:
    agree(target, ("native", "interpreter"), drawn(recipe("small"), 20))


@pytest.mark.release
def test_native_and_interpreter_agree_on_a_release() -> None:
    agree("vllm==0.33.0", ("native", "interpreter"), drawn(recipe("small"), 12))


@pytest.mark.slow
@pytest.mark.parametrize("target", [*TARGETS, *RELEASES])
def test_native_and_interpreter_agree_on_many(target: str) -> None:
    agree(target, ("native", "interpreter"), drawn(recipe("small", seed=12), 160))


class Variant(NamedTuple):
    """A kernel and what of it is decided when it is compiled: by the operation, the runner and the conv layout."""

    operation: OperationName
    runner: Runner
    conv_layout: ConvLayout | None = None

    def of(self, case: Case) -> bool:
        """Whether a case is a single operation of this variant with rows, with a window if the layout matters."""
        if len(case.program) != 1 or not case.program[0].rows or case.program[0].runner != self.runner:
            return False
        if self.conv_layout is None:
            return True
        states = [state for _, state in case.layout.states()]
        return case.layout.conv_layout == self.conv_layout and any(isinstance(state, ConvState) for state in states)


VARIANTS = (
    *(
        Variant(operation, runner, conv_layout)
        for operation, runners in (
            ("postprocess", ("V1", "V2")),
            ("precopy", ("V1", "V2")),
            ("postprocess-entry", ("V1",)),
            ("preprocess", ("V1",)),
            ("scalar-copy", ("V1",)),
        )
        for runner in runners
        for conv_layout in ("SD", "DS")
    ),
    *(Variant(name, "V2") for name in ("advance", "aligned-indices", "scatter-accepted", "fill-accepted")),
)
EACH = 20


def cases_of(variant: Variant, count: int) -> list[Case]:
    """Small cases of a variant, from many layouts of both domains."""
    found: list[Case] = []
    recipe = Recipe(seed=21, domains=("reachable", "total"), operations=(variant.operation,), scale="small")
    for block in range(4000):
        case = case_at(recipe, 16 * block + block % 16)
        if variant.of(case):
            found.append(msgspec.structs.replace(case, execution=Execution()))
            if len(found) == count:
                return found
    raise AssertionError(f"only {len(found)} cases of {variant}")


def agree_on_variants(target: str, variants: Sequence[Variant], count: int) -> None:
    cases = [case for variant in variants for case in cases_of(variant, count)]
    said = agree(target, ("native", "interpreter"), cases)
    judged = Counter(row.operation for row in said if row.status == "pass")
    launched = Counter(row.operation for row in said if row.launches)
    for operation in {variant.operation for variant in variants}:
        wanted = count * sum(variant.operation == operation for variant in variants)
        assert judged[operation] == wanted, (operation, judged)
        assert launched[operation] > wanted // 2, (operation, launched)


@pytest.mark.parametrize("target", ["builtin", pytest.param("vllm==0.33.0", marks=pytest.mark.release)])
def test_native_and_interpreter_agree_on_every_variant(target: str) -> None:
    agree_on_variants(target, VARIANTS, 1)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: "-".join(filter(None, variant)))
@pytest.mark.parametrize("target", ["builtin", pytest.param("vllm==0.33.0", marks=pytest.mark.release)])
def test_native_and_interpreter_agree_on_twenty_of_every_variant(target: str, variant: Variant) -> None:
    agree_on_variants(target, [variant], EACH)


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
    agree(target, ("native", "cuda"), drawn(recipe("full"), 112))


@pytest.mark.gpu
@pytest.mark.parametrize("target", ["builtin", "vllm==0.33.0"])
def test_cuda_and_interpreter_agree(target: str) -> None:
    reason = executor_class("interpreter").unavailable()
    if reason is not None:
        pytest.skip(reason)
    agree(target, ("cuda", "interpreter"), drawn(recipe("small"), 12))
