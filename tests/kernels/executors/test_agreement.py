"""One case gives the same verdict and the same bytes on every executor, for correct kernels and for mutated ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest

from harness.case import Case, Execution
from harness.engines.random import Recipe, case_at
from harness.kernels.executors.registry import executor_class
from harness.testing import Judgement, executor_agrees
from harness.testing.variants import VARIANTS, ConformanceVariant, cases_of

# Mutations whose accesses stay within what kernels may touch: a checking executor suppresses any others.
TARGETS = ("builtin", "builtin+wrong-group", "builtin+conv-shift-off-by-one", "builtin+lost-reset")
RELEASES = ("vllm==0.33.0", "vllm==0.33.0+wrong-group")


def drawn(recipe: Recipe, cases: int) -> list[Case]:
    return [msgspec.structs.replace(case_at(recipe, index), execution=Execution()) for index in range(cases)]


def agree(target: str, executors: tuple[str, str], cases: Sequence[Case]) -> list[Judgement]:
    """Have both executors judge the cases; returns their verdicts, which must be equal and right."""
    judgements = executor_agrees(executors[0], (target,), reference=executors[1], cases=cases)
    assert any(row.status == "fail" for row in judgements) == ("+" in target)
    return judgements


def recipe(scale: str, seed: int = 11) -> Recipe:
    domains = ("reachable", "total")
    return Recipe(seed=seed, domains=domains, operations=("postprocess", "precopy"), scale=scale)  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize("target", ["builtin", "builtin+wrong-group"])
def test_native_and_interpreter_agree(target: str) -> None:
    agree(target, ("native", "interpreter"), drawn(recipe("small"), 20))


@pytest.mark.long
@pytest.mark.release
def test_native_and_interpreter_agree_on_a_release() -> None:
    agree("vllm==0.33.0", ("native", "interpreter"), drawn(recipe("small"), 12))


@pytest.mark.slow
@pytest.mark.parametrize("target", [*TARGETS, *RELEASES])
def test_native_and_interpreter_agree_on_many(target: str) -> None:
    agree(target, ("native", "interpreter"), drawn(recipe("small", seed=12), 160))


EACH = 20


def agree_on_variants(target: str, variants: Sequence[ConformanceVariant], count: int) -> None:
    cases = [case for variant in variants for case in cases_of(variant, count)]
    judgements = agree(target, ("native", "interpreter"), cases)
    judged = Counter(row.operation for row in judgements if row.status == "pass")
    launched = Counter(row.operation for row in judgements if row.launches)
    for operation in {variant.operation for variant in variants}:
        wanted = count * sum(variant.operation == operation for variant in variants)
        # Reachable lists of copies with a bias, or after a step, are of targets without a fused kernel for them.
        least = 1 if operation == "scalar-copy" else wanted
        assert least <= judged[operation] <= wanted, (operation, judged)
        assert launched[operation] > wanted // 2 or operation == "scalar-copy", (operation, launched)


@pytest.mark.long
@pytest.mark.parametrize("target", ["builtin", pytest.param("vllm==0.33.0", marks=pytest.mark.release)])
def test_native_and_interpreter_agree_on_every_variant(target: str) -> None:
    agree_on_variants(target, VARIANTS, 1)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: "-".join(filter(None, variant)))
@pytest.mark.parametrize("target", ["builtin", pytest.param("vllm==0.33.0", marks=pytest.mark.release)])
def test_native_and_interpreter_agree_on_twenty_of_every_variant(target: str, variant: ConformanceVariant) -> None:
    agree_on_variants(target, [variant], EACH)


# On a GPU programs run at the same time: these are the faults with which no two programs write the same byte.
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
