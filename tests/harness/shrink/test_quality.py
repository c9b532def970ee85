"""Minimal cases of planted faults are as small as handwritten ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest

from harness.case import Case, ConvState, TemporalState, encode_case, state_extent
from harness.check.outcome import Outcome
from harness.engines.random import Recipe, case_at
from harness.generators.reachability import PAGE_ALIGNMENT, require_reachable
from harness.kernel_cases.plan import CasePlan
from harness.kernel_cases.recipe import JudgedCase
from harness.kernel_cases.worker import CaseWorker
from harness.kernels.executors.registry import executor_class
from harness.regimes import REGIMES, regimes_of
from harness.shrink import driver
from harness.shrink.driver import Shrunk


def shrink(
    case: Case, outcome: Outcome, judge: Callable[[Case], Outcome], max_executions: int = 1000
) -> Shrunk[Case, JudgedCase]:
    """Shrink a case that failed with `outcome`."""
    assert outcome.signature is not None
    return driver.shrink(case, JudgedCase(outcome), CasePlan(outcome.signature, judge), max_executions)


CASES = 48
SEEDS = (0, 1, 2)


class Bench:
    """Workers with planted faults, and the first case of each signature that a seed finds."""

    def __init__(self, executor: str) -> None:
        self._executor = executor
        self._workers: dict[str, CaseWorker] = {}

    def judge(self, target: str) -> Callable[[Case], Outcome]:
        if target not in self._workers:
            self._workers[target] = CaseWorker(target, self._executor, limit=60.0)
            self._workers[target].wait_ready()
        return self._workers[target].check

    @functools.cache  # noqa: B019 - one bench per module
    def findings(self, target: str, seed: int) -> list[tuple[Case, Outcome]]:
        recipe = Recipe(seed=seed, domains=("reachable",), operations=("postprocess", "precopy"), scale="small")
        found: dict[str, tuple[Case, Outcome]] = {}
        for index in range(CASES):
            case = case_at(recipe, index)
            outcome = self.judge(target)(case)
            if outcome.signature is not None:
                found.setdefault(str(outcome.signature), (case, outcome))
        return list(found.values())

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()


@pytest.fixture(scope="module")
def bench(executor_name: str) -> Iterator[Bench]:
    made = Bench(executor_name)
    yield made
    made.close()


def check_everything(
    shrunk: Shrunk[Case, JudgedCase], case: Case, outcome: Outcome, judge: Callable[[Case], Outcome]
) -> None:
    """Check what is true of every shrunk case."""
    assert shrunk.complete
    assert shrunk.executions <= 150
    final = shrunk.result.outcome.signature
    assert final is not None
    assert final == outcome.signature
    assert judge(shrunk.case).signature == final
    assert shrunk.case.domain == case.domain == "reachable"
    require_reachable(shrunk.case)
    assert not [name for name in regimes_of(shrunk.case) if not REGIMES[name].reachable]
    assert sum(counter.executions for counter in shrunk.passes) == shrunk.executions
    assert all(0 <= counter.accepted <= counter.executions for counter in shrunk.passes)
    assert sum(counter.accepted for counter in shrunk.passes) > 0
    assert len(encode_case(shrunk.case)) < len(encode_case(case))
    again = shrink(case, outcome, judge)
    assert encode_case(again.case) == encode_case(shrunk.case)
    assert again.executions == shrunk.executions
    assert [counter.accepted for counter in again.passes] == [counter.accepted for counter in shrunk.passes]


def check_canonical(case: Case, largest: int = 8, columns: int = 3, drafts: int = 1) -> None:
    """Check that nothing irrelevant is left. `largest`: bytes of a state."""
    (operation,) = case.program
    (row,) = operation.rows
    assert (operation.runner, row.slot) == ("V1", 0)
    assert (case.contents.payload_seed, case.contents.poison) == (0, "A")
    assert case.execution.program_order == "natural"
    layout = case.layout
    assert (layout.table_rows, layout.table_columns) == (1, max(len(t[0]) for t in case.contents.tables))
    assert layout.table_columns <= columns
    assert layout.block_size <= 3
    assert layout.num_spec <= drafts
    named = {cell for table in case.contents.tables for cells in table for cell in cells} | {0}
    assert named == set(range(layout.num_blocks)), "the pool holds the blocks in use and the null block"
    for _, state in layout.states():
        assert state.item_size == 2
        assert state.natural_bytes <= largest
    assert all(buffer.misalignment == 0 for buffer in layout.buffers)


@pytest.mark.parametrize("seed", SEEDS)
def test_wrong_group(bench: Bench, seed: int) -> None:
    """Every group reads group 0's table: that needs two groups, with no more than one state each."""
    target = "builtin+wrong-group"
    for case, outcome in bench.findings(target, seed):
        shrunk = shrink(case, outcome, bench.judge(target))
        check_everything(shrunk, case, outcome, bench.judge(target))
        layout = shrunk.case.layout
        assert [[len(layer.states) for layer in group.layers] for group in layout.groups] == [[1], [1]]
        first, second = (set(table[0]) for table in shrunk.case.contents.tables)
        assert not (first - {0}) & (second - {0}), "the groups' blocks differ"
        if outcome.signature is not None and outcome.signature.oracle == "race":
            # Two programs store different values in one block: they copy from different ones, or one shifts it.
            check_canonical(shrunk.case, largest=48, columns=4, drafts=2)
        else:
            # A window is larger than the drafts, without which postprocess has nothing to do: two tokens of 8 bytes.
            is_window = outcome.signature is not None and outcome.signature.object == "conv"
            check_canonical(shrunk.case, largest=16 if is_window and layout.num_spec else 8)
        for _, state in layout.states():
            # Pages are tight: some faults need a page that two groups share.
            assert state.block_stride == max(state_extent(s) for _, s in layout.states() if s.buffer == state.buffer)


@pytest.mark.parametrize("seed", SEEDS)
def test_temporal_size(bench: Bench, seed: int) -> None:
    """The page stride is taken for the size: that needs only one padded page."""
    target = "builtin+temporal-size"
    found = [
        (case, outcome)
        for case, outcome in bench.findings(target, seed)
        if outcome.signature is not None and outcome.signature.object == "padding"
    ]
    for case, outcome in found:
        shrunk = shrink(case, outcome, bench.judge(target))
        check_everything(shrunk, case, outcome, bench.judge(target))
        ((_, state),) = shrunk.case.layout.states()
        assert isinstance(state, TemporalState)
        assert not isinstance(state, ConvState)
        assert state_extent(state) < state.block_stride <= 2 * PAGE_ALIGNMENT
        check_canonical(shrunk.case)


@pytest.mark.parametrize("target", ["builtin+wrong-group", "builtin+temporal-size"])
def test_there_is_something_to_shrink(bench: Bench, target: str) -> None:
    found = [str(outcome.signature) for seed in SEEDS for _, outcome in bench.findings(target, seed)]
    assert len(found) >= 3
    assert len(set(found)) >= 2


def test_a_budget_is_kept(bench: Bench) -> None:
    target = "builtin+wrong-group"
    case, outcome = bench.findings(target, 0)[0]
    for budget in (1, 2, 7):
        shrunk = shrink(case, outcome, bench.judge(target), max_executions=budget)
        assert shrunk.executions == budget
        assert not shrunk.complete
        assert bench.judge(target)(shrunk.case).signature == outcome.signature


STATES = {"temporal/-", "conv/SD", "conv/DS"}

RACES = {
    "builtin+shared-destination": ({"precopy/race/between-programs", "postprocess/race/between-programs"}, STATES),
    "builtin+stale-accept": ({"postprocess/race/between-programs"}, {"accepted/-"}),
    "builtin+unordered-shift": ({"postprocess/race/between-warps"}, {"conv/SD", "conv/DS"}),
}
"""Races of planted faults, and where they show."""


@pytest.mark.long
@pytest.mark.parametrize(
    "target",
    [pytest.param(name, marks=[pytest.mark.slow] if name.endswith("unordered-shift") else []) for name in RACES],
)
def test_races(bench: Bench, target: str, executor_name: str) -> None:
    """One launch of at most two programs that do anything, in the kind of state that was drawn."""
    if not executor_class(executor_name).instrumented:
        pytest.skip("it takes an instrumented executor to see a race")
    found = set()
    for seed in SEEDS:
        for case, outcome in bench.findings(target, seed):
            if outcome.signature is None or outcome.signature.oracle != "race":
                continue
            shrunk = shrink(case, outcome, bench.judge(target))
            found.add(str(shrunk.result.outcome.signature))
            assert shrunk.complete
            assert bench.judge(target)(shrunk.case).signature == shrunk.result.outcome.signature == outcome.signature
            (verdict,) = shrunk.result.outcome.verdicts
            assert verdict.launches == 1
            (operation,) = shrunk.case.program
            assert len(operation.rows) * shrunk.case.layout.num_states <= 2
    assert found
    races, places = RACES[target]
    assert found <= {f"{race}/{place}" for race in races for place in places}
