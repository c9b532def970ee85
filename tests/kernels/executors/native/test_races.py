"""The native executor's record of a launch, and the races that the oracle finds in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from harness.kernels.executors.native import source_lines
from harness.kernels.executors.native.accesses import AccessSite
from harness.kernels.executors.native.source_lines import SourceLine
from harness.kernels.executors.native.warps import UNKNOWN_PHASE, owners_of, phases_of
from harness.oracles.races import Race, find_races


@pytest.fixture
def racing(make_bench: Callable[..., Any]) -> Any:
    return make_bench(races=True)


@pytest.fixture
def kernels(racing: Any) -> ModuleType:
    loaded: ModuleType = racing.load(Path(__file__).with_name("racing_kernels.py"))
    return loaded


def races(bench: Any) -> list[Race]:
    (launch,) = bench.executor.recorded()
    bench.begin()
    return find_races(launch)


@pytest.mark.parametrize("lanes", [256, 1024])
def test_a_shift_without_a_barrier(racing: Any, kernels: ModuleType, lanes: int) -> None:
    memory = racing.put(list(range(600)), torch.int32)
    kernels.shift[(1,)](memory, 3, 500, LANES=lanes, BARRIER=False)
    assert memory[:500].tolist() == list(range(3, 503))  # no byte came out wrong
    (race,) = races(racing)
    assert race.between == "warps"
    assert race.first.is_store is False
    assert race.second.is_store
    assert abs(race.first.warp - race.second.warp) == 1


def test_a_shift_with_a_barrier(racing: Any, kernels: ModuleType) -> None:
    memory = racing.put(list(range(600)), torch.int32)
    kernels.shift[(1,)](memory, 3, 500, LANES=256, BARRIER=True)
    assert races(racing) == []


def test_a_shift_inside_one_warp_of_one(racing: Any, kernels: ModuleType) -> None:
    """The launch says how many warps a program has."""
    memory = racing.put(list(range(600)), torch.int32)
    kernels.shift[(1,)](memory, 3, 500, LANES=256, BARRIER=False, num_warps=1)
    assert races(racing) == []


def test_a_count_written_in_place(racing: Any, kernels: ModuleType) -> None:
    total, out = racing.put([7], torch.int32), racing.put([0] * 3, torch.int32)
    kernels.count[(3,)](total, out)
    found = races(racing)
    assert {race.between for race in found} == {"programs"}
    assert {race.offset for race in found} == {racing.offset(total)}
    assert found[0].first.function == "count"


def test_stores_of_one_value(racing: Any, kernels: ModuleType) -> None:
    flag = racing.put([0], torch.int32)
    kernels.same_store[(2,)](flag)
    (race,) = races(racing)
    assert race.identical


def test_a_load_whose_value_is_discarded(racing: Any, kernels: ModuleType) -> None:
    memory = racing.put([0] * 4, torch.int32)
    kernels.unused_load[(4,)](memory)
    assert races(racing) == []


def test_owners_of_replicated_lanes(racing: Any, kernels: ModuleType) -> None:
    memory = racing.put(list(range(16)), torch.int32)
    kernels.small[(1,)](memory, LANES=16)
    (launch,) = racing.executor.recorded()
    assert all(not source.warps.any() for source in launch.sources)
    assert find_races(launch) == []


def test_owners_in_two_dimensions(racing: Any, kernels: ModuleType) -> None:
    memory, out = racing.put(list(range(512)), torch.int32), racing.put([0] * 512, torch.int32)
    kernels.rows_and_columns[(1,)](memory, out, ROWS=16, COLUMNS=32)
    (launch,) = racing.executor.recorded()
    sizes = sorted(len(source.warps) for source in launch.sources)
    assert sizes == [32, 512, 512]
    assert find_races(launch) == []
    assert {tuple(np.unique(source.warps)) for source in launch.sources if len(source.warps) == 512} == {(0, 1, 2, 3)}


def test_what_stores_wrote(racing: Any, kernels: ModuleType) -> None:
    total, out = racing.put([7], torch.int32), racing.put([0] * 2, torch.int32)
    kernels.count[(2,)](total, out)
    (launch,) = racing.executor.recorded()
    wrote = [
        (int(launch.offset[record]) - racing.offset(out), launch.stored[at : at + 4].view(np.int32).item())
        for record, at in enumerate(launch.stored_at)
        if launch.sources[launch.source[record]].is_store
    ]
    assert (0, 7) in wrote
    assert (4, 1) in wrote
    racing.begin()


LINE = SourceLine("kernel.py", "kernel", 7)
BLOCKED = """
#blocked = #ttg.blocked<{sizePerThread = [%d], threadsPerWarp = [32], warpsPerCTA = [%d], order = [0]}>
#linear = #ttg.linear<{register = [[64]], lane = [[1], [2], [4], [8], [16]], warp = [[32]], block = []}>
#loc1 = loc("kernel.py":7:3)
  %%0 = tt.load %%1, %%2 : tensor<128x!tt.ptr<i32>, #LAYOUT> loc(#loc1)
"""


@pytest.mark.parametrize(
    ("layout", "per_thread", "warps", "wanted"),
    [
        ("blocked", 1, 4, [0] * 32 + [1] * 32 + [2] * 32 + [3] * 32),
        ("blocked", 2, 4, [0] * 64 + [1] * 64),
        ("blocked", 1, 2, ([0] * 32 + [1] * 32) * 2),
        ("ttg.slice<{dim = 0, parent = #blocked}>", 1, 4, [0] * 32 + [1] * 32 + [2] * 32 + [3] * 32),
        ("linear", 1, 2, ([0] * 32 + [1] * 32) * 2),
        ("ttg.unheard_of", 1, 4, [0] * 32 + [1] * 32 + [2] * 32 + [3] * 32),
    ],
)
def test_layouts(layout: str, per_thread: int, warps: int, wanted: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_lines, "function_at", lambda file, line: "kernel")
    text = (BLOCKED % (per_thread, warps)).replace("#LAYOUT", f"#{layout}")
    if "slice" in layout:
        flat = "sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]"
        assert flat in text
        text = text.replace(
            flat, "sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [1, 4], order = [1, 0]"
        )
    (owners,) = owners_of([AccessSite(LINE, False, 4, (128,))], text, 4)
    assert list(owners) == wanted


def test_changes_of_layout_between_warps_are_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the kernel's body, and only where lanes change warps."""
    monkeypatch.setattr(source_lines, "function_at", lambda file, line: "kernel")
    parts = "threadsPerWarp = [32], warpsPerCTA = [4], order = [0]"
    change = "%4 = ttg.convert_layout %3 : tensor<128xi32, #{}> -> tensor<128xi32, #{}> loc(#loc1)"
    access = "%0 = tt.load %1, %2 : tensor<128x!tt.ptr<i32>, #one> loc(#loc1)"
    text = "\n".join(
        [
            f"#one = #ttg.blocked<{{sizePerThread = [1], {parts}}}>",
            f"#two = #ttg.blocked<{{sizePerThread = [2], {parts}}}>",
            '#loc1 = loc("kernel.py":7:3)',
            'module attributes {"ttg.num-warps" = 4 : i32} {',
            "tt.func public @kernel(%a: i32 loc(unknown)) attributes {noinline = false} {",
            access,
            change.format("one", "one"),
            access,
            change.format("one", "two"),
            access,
            "%9 = scf.if %8 -> (i32) {",
            change.format("two", "one"),
            "} else {",
            access,
            "} loc(#loc1)",
            change.format("two", "one"),
            access,
            "} loc(#loc)",
            "} loc(#loc)",
        ]
    )
    sites = [AccessSite(LINE, False, 4, (128,))] * 5
    assert phases_of(sites, text) == [0, 0, 1, 1, 2]
    assert phases_of([*sites, AccessSite(LINE, False, 4)], text) == [0, 0, 1, 1, 2, UNKNOWN_PHASE]
    assert phases_of(sites[:4], text) == [UNKNOWN_PHASE] * 4


ORDERED = {"acq_rel": True, "release": False, "acquire": False, "relaxed": False}
"""Whether an atomic access of that order publishes what all programs have read."""


@pytest.mark.parametrize("order", ORDERED)
@pytest.mark.parametrize("barrier", [True, False])
def test_the_last_program_to_arrive_resets(racing: Any, kernels: ModuleType, order: str, barrier: bool) -> None:
    total, arrived = racing.put([7] * 256, torch.int32), racing.put([0], torch.int32)
    out = racing.put([0] * 768, torch.int32)
    kernels.reset[(3,)](total, arrived, out, BARRIER=barrier, ORDER=order, LANES=256)
    assert out.tolist() == [7] * 768
    assert (total.tolist(), arrived.tolist()) == ([1] * 256, [0])
    found = races(racing)
    assert {race.between for race in found} <= {"programs"}
    if ORDERED[order] and barrier:
        assert found == []
    else:
        assert racing.offset(total) in {race.offset for race in found}


def test_one_program_resets_what_it_read(racing: Any, kernels: ModuleType) -> None:
    total, arrived = racing.put([7] * 256, torch.int32), racing.put([0], torch.int32)
    out = racing.put([0] * 256, torch.int32)
    kernels.reset[(1,)](total, arrived, out, BARRIER=True, ORDER="relaxed", LANES=256)
    assert races(racing) == []


def test_atomic_accesses_do_not_race(racing: Any) -> None:
    counter, out = racing.put([0], torch.int32), racing.put([9] * 8, torch.int32)
    racing.kernels.claim[(8,)](counter, out)
    assert sorted(out.tolist()) == list(range(8))
    assert counter.tolist() == [0]
    assert races(racing) == []
