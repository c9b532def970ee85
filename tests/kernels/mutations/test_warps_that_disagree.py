"""Warps of one program that disagree end, and the case says why: a race.

With stale-accept the accepted counts are reset while other warps still read them. With warps apart these see another
number of requests that reach a block's end, and pass another number of barriers.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from harness.check.session import Session
from harness.engines.random import Recipe, case_at
from harness.kernels.executors.registry import create_executor, executor_class
from harness.kernels.mutations.registry import mutation
from harness.kernels.targets.builtin import BuiltinTarget

needs_native = pytest.mark.skipif(
    executor_class("native").unavailable() is not None, reason="no executor here has warps apart"
)


@needs_native
def test_the_planted_kernel_ends_with_warps_apart() -> None:
    executor = create_executor("native")
    session = Session(BuiltinTarget(executor, [mutation("stale-accept")]), executor)
    drawn = Recipe(seed=7, domains=("reachable", "total"), operations=("postprocess",), scale="small", warps="apart")
    found = 0
    for recipe in (drawn, replace(drawn, seed=8)):
        for index in range(120, 200):
            failure = session.check(case_at(recipe, index)).failure
            if failure is not None:
                assert failure.signature is not None
                assert failure.signature.oracle == "race", failure
                found += 1
    assert found > 5
