"""What counts as a race: recorded accesses written by hand, and the oracle's answer."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from harness.accesses import AccessSource, AccessSources, RecordedLaunch, Threads
from harness.oracles.races import find_races

WARPS = np.repeat(np.arange(4, dtype=np.uint8), 32)
ALONE = np.zeros(1, dtype=np.uint8)

LOAD, STORE, SCALAR_LOAD, SCALAR_STORE = range(4)
SOURCES = [
    AccessSource("kernel", "/src/copy.py", "kernel", 10, False, 4, lambda: Threads(WARPS)),
    AccessSource("kernel", "/src/copy.py", "kernel", 11, True, 4, lambda: Threads(WARPS)),
    AccessSource("kernel", "/src/copy.py", "kernel", 12, False, 4, lambda: Threads(ALONE)),
    AccessSource("kernel", "/src/copy.py", "kernel", 13, True, 4, lambda: Threads(ALONE)),
]


def in_phase(source: AccessSource, phase: int) -> AccessSource:
    return replace(source, threads=lambda: Threads(source.warps, phase))


def unasked() -> Threads:
    raise AssertionError("the owners of lanes are not needed here")


Record = tuple[int, int, int, int, int, int, bytes]
"""Source, program, epoch, offset, lane, count, and the bytes a store wrote."""


def launch(*records: Record) -> RecordedLaunch:
    columns = np.array([record[:6] for record in records], dtype=np.int64).reshape(-1, 6).T
    lengths = [len(record[6]) for record in records]
    stored = np.frombuffer(b"".join(record[6] for record in records), dtype=np.uint8)
    at = np.cumsum([0, *lengths])[:-1]
    return RecordedLaunch((4, 2, 1), AccessSources(SOURCES), *columns, stored_at=at, stored=stored)


def load(program: int, offset: int, lane: int = 0, count: int = 1, epoch: int = 0) -> Record:
    return LOAD, program, epoch, offset, lane, count, b""


def store(program: int, offset: int, lane: int = 0, count: int = 1, epoch: int = 0, value: int = 1) -> Record:
    return STORE, program, epoch, offset, lane, count, bytes([value]) * (4 * count)


def test_loads_never_race() -> None:
    assert find_races(launch(load(0, 0), load(1, 0))) == []
    assert find_races(launch()) == []


def test_a_load_and_a_store_by_two_programs() -> None:
    (race,) = find_races(launch(store(0, 100, count=8), load(5, 116, lane=40, count=2)))
    assert (race.between, race.offset, race.identical) == ("programs", 116, False)
    assert (race.first.program, race.first.line, race.first.is_store, race.first.lane) == ((0, 0, 0), 11, True, 4)
    assert (race.second.program, race.second.line, race.second.lane) == ((1, 1, 0), 10, 40)


def test_who_runs_an_access_is_asked_where_one_program_touches_a_byte_twice_between_barriers() -> None:
    late = [replace(source, threads=unasked) for source in SOURCES]
    apart = launch(load(0, 0), store(0, 64), load(1, 128), store(0, 0, epoch=1))
    assert find_races(replace(apart, sources=AccessSources(late))) == []
    with pytest.raises(AssertionError, match="not needed"):
        find_races(replace(launch(load(0, 0), store(0, 0)), sources=AccessSources(late)))


def test_barriers_order_no_programs() -> None:
    assert find_races(launch(store(0, 0), load(1, 0, epoch=3)))


def test_touching_accesses_share_no_byte() -> None:
    assert find_races(launch(store(0, 0, count=4), load(1, 16, count=4), store(2, 32), load(3, 28))) == []


def test_a_load_around_a_store_and_a_store_around_a_load() -> None:
    assert find_races(launch(load(0, 0, count=32), store(1, 40)))
    assert find_races(launch(store(0, 0, count=32), load(1, 40)))


def test_one_warp_is_in_order() -> None:
    assert find_races(launch(load(0, 0, lane=0, count=32), store(0, 0, lane=0, count=32))) == []
    assert find_races(launch(load(0, 4, lane=1, count=31), store(0, 0, lane=0, count=32))) == []


def test_a_shift_across_warps_is_a_race_at_the_first_byte_that_another_warp_reads() -> None:
    (race,) = find_races(launch(load(0, 4, count=64), store(0, 0, count=64)))
    # Word 32 is loaded by lane 31 and stored by lane 32.
    assert (race.between, race.offset) == ("warps", 128)
    assert (race.first.warp, race.second.warp) == (0, 1)
    assert "warp 1 stores it at copy.py:11 (kernel)" in str(race.second)


def test_a_barrier_orders_warps() -> None:
    assert find_races(launch(load(0, 4, count=64), store(0, 0, count=64, epoch=1))) == []


def test_stores_of_one_value_are_a_separate_kind() -> None:
    (race,) = find_races(launch(store(0, 0), store(1, 0)))
    assert race.identical
    (race,) = find_races(launch(store(0, 0), store(1, 0, value=2)))
    assert not race.identical


def test_a_byte_that_differs_is_not_hidden_by_one_that_does_not() -> None:
    different = (STORE, 1, 0, 0, 0, 2, bytes([1, 1, 1, 1, 1, 1, 7, 1]))
    harmful, harmless = find_races(launch(store(0, 0, count=2), different))
    assert (harmful.offset, harmful.identical) == (6, False)
    assert (harmless.offset, harmless.identical) == (0, True)


def test_each_pair_of_lines_is_reported_once() -> None:
    records = [record for program in range(50) for record in (load(program, 0), store(program, 0, value=program))]
    found = find_races(launch(*records))
    assert {frozenset((race.first.line, race.second.line)) for race in found} == {frozenset((10, 11)), frozenset((11,))}
    assert len(found) == 2


def test_the_order_of_the_record_changes_nothing() -> None:
    """Except which access is called the first."""
    records = [load(0, 0, count=8), store(0, 0, lane=32, count=8), store(1, 8, value=2), load(1, 0, lane=2)]

    def reported(order: Sequence[int]) -> set[tuple[object, ...]]:
        races = find_races(launch(*(records[number] for number in order)))
        return {
            (
                race.between,
                race.offset,
                *sorted((side.line, side.program, side.lane) for side in (race.first, race.second)),
            )
            for race in races
        }

    orders = list(itertools.permutations(range(len(records))))
    assert len(reported(orders[0])) >= 3
    assert all(reported(order) == reported(orders[0]) for order in orders)


def test_against_every_pair_of_bytes() -> None:
    """Random accesses, also judged by comparing every pair of accesses to every byte."""
    random = np.random.default_rng(7)
    for _ in range(60):
        records = []
        for _ in range(int(random.integers(2, 14))):
            kind, program, epoch = (int(number) for number in random.integers((0, 0, 0), (2, 2, 2)))
            offset, lane, count = (int(number) for number in random.integers((0, 0, 1), (40, 100, 28)))
            make = (load, store)[kind]
            records.append(make(program, 4 * offset, lane=lane, count=count, epoch=epoch))
        wanted = set()
        for i, one in enumerate(records):
            for other in records[i + 1 :]:
                for byte in range(max(one[3], other[3]), min(one[3] + 4 * one[5], other[3] + 4 * other[5])):
                    if STORE not in (one[0], other[0]):
                        continue
                    if one[1] != other[1]:
                        wanted.add(("programs", *sorted((SOURCES[one[0]].line, SOURCES[other[0]].line))))
                    elif one[2] == other[2]:
                        warps = [WARPS[record[4] + (byte - record[3]) // 4] for record in (one, other)]
                        if warps[0] != warps[1]:
                            wanted.add(("warps", *sorted((SOURCES[one[0]].line, SOURCES[other[0]].line))))
        races = find_races(launch(*records))
        found = {(race.between, *sorted((race.first.line, race.second.line))) for race in races}
        assert found == wanted


def test_barriers_of_the_compiler_order_warps_but_no_programs() -> None:
    """The load is in phase 0, the store in phase 1: it comes later, in any recorded schedule of warps."""
    phased = [in_phase(source, int(source.is_store)) for source in SOURCES]
    inside = replace(launch(load(0, 0, lane=64), store(0, 0)), sources=AccessSources(phased))
    assert find_races(inside) == []
    assert find_races(launch(load(0, 0, lane=64), store(0, 0)))
    assert find_races(replace(launch(store(0, 0), load(0, 0, lane=64)), sources=AccessSources(phased))) == []
    loop = [in_phase(source, 1) for source in SOURCES]
    assert find_races(replace(launch(store(0, 0), load(0, 0, lane=64)), sources=AccessSources(loop)))
    assert find_races(replace(launch(load(0, 0, lane=64), store(1, 0)), sources=AccessSources(phased)))
