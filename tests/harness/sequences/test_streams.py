"""The arguments that a release's own scheduler passes to kernels: through real kernels on bytes, and compared with our
simulator of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest

from harness.case import Case, EditTables, Postprocess, PostprocessEntry, Precopy, ScalarCopy
from harness.check.session import Session
from harness.engines.random import Recipe, case_at
from harness.generators.reachability import require_reachable
from harness.kernels.executors.registry import create_executor
from harness.kernels.targets.registry import load_target
from harness.regimes import REGIMES, regimes_of
from harness.sequences.result import RunResult

GENERATED = 6000
RARE = 3
"""A shape seen less often may be missing among the generated cases by chance."""


@pytest.mark.long
def test_every_byte_is_what_the_symbolic_device_says(stream: list[RunResult]) -> None:
    assert [result.violation for result in stream] == [None] * len(stream)
    counters = sum((Counter(result.counters) for result in stream), Counter[str]())
    assert counters["steps"] > 1000
    assert counters["byte comparisons"] > 1.5 * (counters["steps"] - counters["empty steps"])
    assert counters["kernel launches"] > 2 * (counters["steps"] - counters["empty steps"])
    assert min(counters["precopy moves"], counters["postprocess moves"], counters["moves with a bias"]) > 50


def test_the_stream_is_reachable_as_our_validator_sees_it(stream_cases: list[Case]) -> None:
    assert len(stream_cases) > 100
    for case in stream_cases:
        require_reachable(case)


def test_other_kernels_run_the_stream_as_cases(stream_cases: list[Case]) -> None:
    executor = create_executor("native", ("memory",))
    session = Session(load_target("builtin", executor), executor)
    moves = 0
    for case in stream_cases[::4]:
        outcome = session.check(case)
        assert [verdict.status for verdict in outcome.verdicts] == ["pass"] * len(case.program)
        moves += sum(verdict.moves for verdict in outcome.verdicts)
    assert moves > 100


@pytest.fixture(scope="session")
def generated() -> list[Case]:
    recipe = Recipe(3, ("reachable",), ("postprocess", "precopy", "scalar-copy", "forward"), "small")
    return [case_at(recipe, index) for index in range(GENERATED)]


def test_the_simulator_reaches_the_regimes_of_the_scheduler(stream_cases: list[Case], generated: list[Case]) -> None:
    met = Counter(name for case in stream_cases for name in regimes_of(_first_step(case)))
    assert [name for name in met if not REGIMES[name].reachable] == []
    reached = {name for case in generated for name in regimes_of(case)}
    assert set(met) - reached == set()
    assert len(met) > 35


def test_the_simulator_makes_the_rows_that_the_scheduler_makes(stream_cases: list[Case], generated: list[Case]) -> None:
    met = Counter(shape for case in stream_cases for shape in _shapes(case))
    reached = {shape for case in generated for shape in _shapes(case)}
    assert [shape for shape, count in met.items() if count >= RARE and shape not in reached] == []
    assert len(met) > 50


def _first_step(case: Case) -> Case:
    """The case up to the first edit: regimes look at the tables that a case starts with."""
    end = next((i for i, item in enumerate(case.program) if isinstance(item, EditTables)), len(case.program))
    return msgspec.structs.replace(case, program=case.program[:end])


def _shapes(case: Case) -> Iterator[tuple[object, ...]]:
    """The shape of each row of a copying operation, without numbers."""
    size, spec = case.layout.block_size, case.layout.num_spec
    for operation in case.program:
        if isinstance(operation, Postprocess | PostprocessEntry):
            for row in operation.rows:
                if row.slot < 0:
                    continue
                aligned = row.new_computed // size * size
                moves = aligned >= row.running
                yield (
                    "postprocess",
                    operation.runner,
                    "nothing computed" if row.computed == 0 else "mid-block" if row.computed % size else "boundary",
                    "chunk" if not row.draft else "all drafts" if row.draft == spec else "fewer drafts",
                    "none" if row.accepted == 1 else "all" if row.accepted == row.draft + 1 else "some",
                    (row.state_column - (aligned // size - 1), min(aligned - row.running, 2)) if moves else None,
                )
        elif isinstance(operation, Precopy | ScalarCopy):
            for start in operation.rows:
                if start.slot < 0:
                    continue
                fresh = start.source_column < 0
                distance = max(-2, min(start.destination_column - start.source_column, 3))
                yield (
                    type(operation).__name__,
                    operation.runner,
                    "fresh" if fresh else distance,
                    min(start.bias, 2) if not fresh and distance else 0,
                )
