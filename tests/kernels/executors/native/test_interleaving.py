"""Programs that yield to each other before each load and store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from harness.oracles.races import Race, RacingAccess, find_races

RACING = Path(__file__).with_name("racing_kernels.py")


@pytest.fixture
def weaving(make_bench: Callable[..., Any]) -> Any:
    return make_bench(races=True, undefined=True)


@pytest.fixture
def kernels(weaving: Any) -> ModuleType:
    loaded: ModuleType = weaving.load(RACING)
    return loaded


def counted(bench: Any, kernels: ModuleType, programs: int) -> list[int]:
    """What each program reads from a number that the first of them changes from 7 to 1."""
    total, out = bench.put([7], torch.int32), bench.put([0] * programs, torch.int32)
    kernels.count[(programs,)](total, out)
    assert bench.executor.faults() == ()
    return [int(number) for number in out]


def test_a_schedule_is_drawn_from_its_seed(weaving: Any, kernels: ModuleType) -> None:
    weaving.executor.interleave = 4
    outcomes = []
    for seed in (*range(8), *range(8)):
        weaving.executor.schedule_seed = seed
        outcomes.append(counted(weaving, kernels, 6))
    assert outcomes[:8] == outcomes[8:]
    assert len({tuple(outcome) for outcome in outcomes}) > 2
    # The first program may be overtaken: no order of whole programs gives this.
    assert any(outcome[1:].count(7) and outcome[1:].count(1) for outcome in outcomes)


def test_one_after_the_other(weaving: Any, kernels: ModuleType) -> None:
    for live in (0, 1):
        weaving.executor.interleave = live
        assert counted(weaving, kernels, 6) == [7, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("order", ["natural", "reversed", ("shuffled", 3)])
def test_all_programs_run_once(weaving: Any, kernels: ModuleType, order: Any) -> None:
    weaving.executor.program_order = order
    weaving.executor.interleave = 16
    memory = weaving.put([0] * 51, torch.int32)
    kernels.unused_load[(50,)](memory)
    assert memory.tolist() == [1] * 50 + [0]


def test_races_are_the_same_in_any_schedule(weaving: Any, kernels: ModuleType) -> None:
    found = set()
    for live, seed in ((0, 0), (4, 1), (4, 2)):
        weaving.executor.interleave, weaving.executor.schedule_seed = live, seed
        weaving.begin()
        counted(weaving, kernels, 3)
        (launch,) = weaving.executor.recorded()
        lines = [(race.between, frozenset((race.first.line, race.second.line))) for race in find_races(launch)]
        found.add(frozenset(lines))
        weaving.begin()
    assert len(found) == 1


def test_tensors_outlive_their_program_s_turn(weaving: Any, kernels: ModuleType) -> None:
    """Each program's values are in its own frame."""
    weaving.executor.interleave = 3
    memories = [weaving.put(list(range(64)), torch.int32) for _ in range(2)]
    for memory in memories:
        kernels.small[(1,)](memory, LANES=64)
        assert memory.tolist() == list(range(1, 65))


@pytest.mark.parametrize("lanes", [128, 256])
def test_independent_warps_shift_in_some_order(weaving: Any, kernels: ModuleType, lanes: int) -> None:
    """Without a barrier bytes are wrong in some schedules; with one in none."""
    weaving.executor.warps_apart = True
    wrong = 0
    for seed in range(6):
        weaving.executor.schedule_seed = seed
        for barrier in (False, True):
            memory = weaving.put(list(range(400)), torch.int32)
            kernels.shift[(1,)](memory, 3, 300, LANES=lanes, BARRIER=barrier)
            right = memory[:300].tolist() == list(range(3, 303))
            assert right or not barrier
            wrong += not right
    assert wrong > 0


def test_independent_warps_store_every_lane_once(weaving: Any, kernels: ModuleType) -> None:
    weaving.executor.warps_apart = True
    weaving.executor.interleave = 3
    memory, out = weaving.put(list(range(512)), torch.int32), weaving.put([0] * 512, torch.int32)
    kernels.rows_and_columns[(1,)](memory, out, ROWS=16, COLUMNS=32)
    assert out.tolist() == [number + number % 32 for number in range(512)]
    small = weaving.put(list(range(16)), torch.int32)
    kernels.small[(1,)](small, LANES=16)
    assert small.tolist() == list(range(1, 17))
    assert counted(weaving, kernels, 5)[0] in (7, 1)


def found_races(bench: Any) -> list[tuple[object, ...]]:
    """Everything reported about the races of all launches, except the order in which the two accesses came."""
    found: list[tuple[object, ...]] = []
    for launch in bench.executor.recorded():
        for race in find_races(launch):
            sides = sorted((side.is_store, side.line, side.program, side.lane, side.warp) for side in race_sides(race))
            found.append((race.between, race.offset, race.identical, *sides))
    bench.begin()
    return sorted(found)


def race_sides(race: Race) -> tuple[RacingAccess, RacingAccess]:
    return race.first, race.second


@pytest.mark.parametrize("lanes", [128, 256])
@pytest.mark.parametrize("barrier", [False, True])
def test_races_between_independent_warps(weaving: Any, kernels: ModuleType, lanes: int, barrier: bool) -> None:
    """The same races as with warps in lockstep, in any schedule: each warp is judged by the lanes that it owns."""
    memory = weaving.put(list(range(400)), torch.int32)
    total, out = weaving.put([7], torch.int32), weaving.put([0] * 3, torch.int32)
    few = weaving.put(list(range(16)), torch.int32)

    def found() -> list[tuple[object, ...]]:
        weaving.begin()
        kernels.shift[(1,)](memory, 3, 300, LANES=lanes, BARRIER=barrier)
        kernels.count[(3,)](total, out)
        kernels.small[(1,)](few, LANES=16)
        return found_races(weaving)

    together = found()
    assert [race[0] for race in together] == ["programs"] * (len(together) - (not barrier)) + ["warps"] * (not barrier)
    weaving.executor.warps_apart = True
    for seed in range(4):
        weaving.executor.schedule_seed = seed
        assert found() == together


def test_the_compiler_s_barriers_order_independent_warps(weaving: Any, kernels: ModuleType) -> None:
    """Lanes of one layout are loaded, those of another one stored to the same places."""
    weaving.executor.warps_apart = True
    for seed in range(6):
        weaving.executor.schedule_seed = seed
        numbers = weaving.put(list(range(512)), torch.int32)
        wide = weaving.put([0] * 512, torch.int64)
        kernels.two_layouts[(1,)](numbers, wide, LANES=512)
        phases = [source.phase for source in weaving.executor.recorded()[0].sources]
        assert phases == sorted(phases)
        assert phases[0] < phases[-1]
        assert wide.tolist() == list(range(512))
        assert numbers.tolist() == list(range(100, 612))
        assert found_races(weaving) == []


@pytest.mark.parametrize("apart", [False, True])
def test_an_atomic_access_happens_once_for_a_program(weaving: Any, kernels: ModuleType, apart: bool) -> None:
    weaving.executor.interleave, weaving.executor.warps_apart = 5, apart
    for seed in range(6):
        weaving.executor.schedule_seed = seed
        total, arrived = weaving.put([7] * 256, torch.int32), weaving.put([0], torch.int32)
        out = weaving.put([0] * 256 * 7, torch.int32)
        kernels.reset[(7,)](total, arrived, out, BARRIER=True, ORDER="acq_rel", LANES=256)
        assert out.tolist() == [7] * 256 * 7
        assert (total.tolist(), arrived.tolist()) == ([1] * 256, [0])
        (launch,) = weaving.executor.recorded()
        assert find_races(launch) == []
        counter, numbers = weaving.put([0], torch.int32), weaving.put([-1] * 9, torch.int32)
        weaving.kernels.claim[(9,)](counter, numbers)
        assert sorted(numbers.tolist()) == list(range(9))


@pytest.mark.parametrize("at_first", [0, 1])
def test_a_warp_that_has_ended_is_not_waited_for(weaving: Any, kernels: ModuleType, at_first: int) -> None:
    """Warps that disagree pass different numbers of barriers: the launch ends, and the race says why."""
    weaving.executor.interleave, weaving.executor.warps_apart = 2, True
    for seed in range(8):
        weaving.executor.schedule_seed = seed
        flag, out = weaving.put([at_first], torch.int32), weaving.put([0], torch.int32)
        kernels.parting[(3,)](flag, out, AT_FIRST=at_first)
        assert (flag.tolist(), out.tolist()) == ([1 - at_first], [5])
        assert "programs" in {race[0] for race in found_races(weaving)}


def test_warps_that_wait_at_different_barriers_pass(weaving: Any, kernels: ModuleType) -> None:
    weaving.executor.warps_apart = True
    for seed in range(8):
        weaving.executor.schedule_seed = seed
        flag, out = weaving.put([0], torch.int32), weaving.put([0, 0, 0], torch.int32)
        kernels.waiting_elsewhere[(2,)](flag, out)
        assert flag.tolist() == [1]
        assert out.tolist() == [5, 6, 7]


def test_an_atomic_access_happens_though_the_first_warp_has_ended(weaving: Any, kernels: ModuleType) -> None:
    """Else the other warps would read the same number for ever."""
    weaving.executor.warps_apart = True
    ran = set()
    for seed in range(8):
        weaving.executor.schedule_seed = seed
        flag, counter = weaving.put([0], torch.int32), weaving.put([0], torch.int32)
        kernels.claiming_late[(1,)](flag, counter, 3)
        assert flag.tolist() == [1]
        ran.add(int(counter[0]))
    assert ran == {0, 4}


def test_reductions_of_independent_warps(weaving: Any) -> None:
    weaving.executor.interleave, weaving.executor.warps_apart = 3, True
    numbers = [3, -4, 7, 2, 2, 9, 0, -1]
    out = weaving.put([0] * 35, torch.int32)
    weaving.kernels.fold[(1,)](weaving.put(numbers, torch.int32), out, 8, BLOCK=16)
    assert out.tolist()[:3] == [18, 9, 16]
    assert out.tolist()[3:11] == [3, -1, 6, 8, 10, 19, 19, 18]
