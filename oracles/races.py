"""A race is two accesses to one byte, at least one of them a store, without an order between them.

The race oracle reads what one launch did (harness.accesses), in the order in which it happened to run, and applies
what a GPU guarantees, which is little:

- two programs of a launch are not ordered at all, except by atomic accesses (synchronisation.py), which never race
  with each other;
- two warps of one program are ordered only by a barrier that both have passed in between: the kernel's or the
  compiler's;
- the accesses of one warp are in the order of the kernel's source.

So a race is found whether or not a byte was wrong. Of the threads that hold one lane only the owner counts, and a load
with an unused value is not an access (the recorder leaves it out). Stores of the same value do no harm on any GPU; they
are races of a separate kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from harness.accesses import Integers, RecordedLaunch
from harness.code_lines import CodeLine, chain_in_words
from harness.oracles.synchronisation import ordered

Between = Literal["programs", "warps"]

PAIRS_EACH = 4096
"""Maximum number of overlaps examined for one access."""
BYTES_EACH = 4096
"""Maximum number of bytes examined of one overlap."""


@dataclass(frozen=True)
class RacingAccess:
    """One side of a race: grid indices of the program, warp, lane, and the source location."""

    program: tuple[int, int, int]
    warp: int
    lane: int
    kernel: str
    file: str
    function: str
    line: int
    is_store: bool
    callers: tuple[CodeLine, ...] = ()

    @property
    def code(self) -> tuple[CodeLine, ...]:
        """The line of the access and those of the calls that lead to it, innermost first; empty if unknown."""
        return (CodeLine(self.file, self.function, self.line), *self.callers) if self.file else ()

    def __str__(self) -> str:
        action = "stores" if self.is_store else "loads"
        place = chain_in_words(self.code) or "a line that is not known"
        return f"program {self.program}, warp {self.warp} {action} it at {place}"


@dataclass(frozen=True)
class Race:
    """Two unordered accesses to the byte at arena offset `offset`, in the order in which they ran.

    `identical`: both stored the same value there.
    """

    between: Between
    offset: int
    first: RacingAccess
    second: RacingAccess
    identical: bool = False
    launched: tuple[CodeLine, ...] = ()
    """The lines of host code that launched the kernel, innermost first; empty if they were not asked for."""


def find_races(launch: RecordedLaunch) -> list[Race]:
    """The races of a launch: for each pair of kernel lines and each kind, the one at the lowest offset.

    They do not depend on the recorded schedule, except for which of the two accesses came first.

    Races between programs come first, those of identical stores last.
    """
    first, second = _overlaps(launch)
    apart = launch.program[first] != launch.program[second]
    together = ~apart & (launch.epoch[first] == launch.epoch[second])
    one, other = first[apart], second[apart]
    unordered = ~ordered(launch, one, other)
    races = _races(launch, "programs", one[unordered], other[unordered])
    if together.any():
        first, second = first[together], second[together]
        unordered = ~(_parted(launch, first, second) | _of_one_warp(launch, first, second))
        races += _races(launch, "warps", first[unordered], second[unordered])
    return sorted(races, key=lambda race: race.identical)


def _parted(launch: RecordedLaunch, first: Integers, second: Integers) -> NDArray[np.bool_]:
    """Whether a compiler barrier lies between two accesses, whichever of them came first."""
    phases = launch.sources.phase
    one, other = phases[launch.source[first]], phases[launch.source[second]]
    parted: NDArray[np.bool_] = (one >= 0) & (other >= 0) & (one != other)
    return parted


def _of_one_warp(launch: RecordedLaunch, first: Integers, second: Integers) -> NDArray[np.bool_]:
    """Whether both accesses clearly touch each byte with the same warp: nearly all do, and need no look at their bytes.

    That is so if they are arranged alike and have the same lane for each byte, or if one warp owns all their lanes.
    """
    sources = launch.sources
    one, other = launch.source[first], launch.source[second]
    zero = [launch.offset[side] - launch.lane[side] * sources.width[launch.source[side]] for side in (first, second)]
    found: NDArray[np.bool_] = (sources.arrangement[one] == sources.arrangement[other]) & (zero[0] == zero[1])
    (left,) = np.nonzero(~found)
    if not len(left):
        return found
    first, second, one, other = first[left], second[left], one[left], other[left]
    begins = sources.first_lane[one] + launch.lane[first], sources.first_lane[other] + launch.lane[second]
    same: NDArray[np.bool_] = sources.owner[begins[0]] == sources.owner[begins[1]]
    for begin, side in zip(begins, (first, second), strict=True):
        same &= sources.changes[begin] == sources.changes[begin + launch.count[side] - 1]
    found[left] = same
    return found


_NOWHERE: Integers = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
"""An end before, and a start after, all others."""


def _overlaps(launch: RecordedLaunch) -> tuple[Integers, Integers]:
    """Pairs of records that share a byte, at least one of them a store, the earlier one first."""
    stores = _stores(launch)
    start, end = launch.offset, launch.offset + launch.count * _widths(launch)
    (written,) = np.nonzero(stores)
    if not len(written):
        return written, written
    written = written[np.argsort(start[written], kind="stable")]
    begins = start[written]
    # Where a load begins, an earlier store must extend past it, or the next store must begin before its end.
    (loaded,) = np.nonzero(~stores)
    reach = np.maximum.accumulate(end[written])
    following = np.searchsorted(begins, start[loaded], side="right")
    covered = np.concatenate((_NOWHERE[:1], reach))[following] > start[loaded]
    ahead = np.concatenate((begins, _NOWHERE[1:]))[following] < end[loaded]
    loaded = loaded[covered | ahead]
    pairs = []
    if len(loaded):  # most launches stop here: they load nothing that they store, and store nothing twice
        loaded = loaded[np.argsort(start[loaded], kind="stable")]
        # stores by the load that begins inside them, loads by the store that begins inside them
        pairs.append(_starting_inside(written, loaded, start, end, after_start=False))
        pairs.append(_starting_inside(loaded, written, start, end, after_start=True))
    if (reach[:-1] > begins[1:]).any():
        pairs.append(_starting_inside(written, written, start, end, after_start=False))
    if not pairs:
        return written[:0], written[:0]
    one = np.concatenate([a for a, _ in pairs])
    other = np.concatenate([b for _, b in pairs])
    return np.minimum(one, other), np.maximum(one, other)


def _starting_inside(
    outer: Integers, inner: Integers, start: Integers, end: Integers, *, after_start: bool
) -> tuple[Integers, Integers]:
    """Pairs (o, i) where i begins inside o; both lists are sorted by start. `after_start`: not exactly at its start.
    If both lists are the same, each pair occurs once.
    """
    low = np.searchsorted(start[inner], start[outer], side="right" if after_start else "left")
    if outer is inner:
        low = np.arange(len(outer)) + 1
    counts = np.clip(np.searchsorted(start[inner], end[outer], side="left") - low, 0, PAIRS_EACH)
    left = np.repeat(np.arange(len(outer)), counts)
    steps = np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts)
    return outer[left], inner[low[left] + steps]


def _races(launch: RecordedLaunch, between: Between, first: Integers, second: Integers) -> list[Race]:
    """Split overlaps into bytes: the lane that touches a byte, and so the warp, differs from byte to byte."""
    if not len(first):
        return []
    start = np.maximum(launch.offset[first], launch.offset[second])
    ends = launch.offset + launch.count * _widths(launch)
    sizes = np.minimum(np.minimum(ends[first], ends[second]) - start, BYTES_EACH)
    pair = np.repeat(np.arange(len(first)), sizes)
    offset = start[pair] + np.arange(len(pair)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    one, other = first[pair], second[pair]
    if between == "warps":
        apart = _warps(launch, one, offset) != _warps(launch, other, offset)
        one, other, offset = one[apart], other[apart], offset[apart]
        if not len(one):
            return []
    identical = _identical(launch, one, other, offset)
    # Independent of the schedule: by program, then by lane, regardless of which of the two came first.
    sides = [(launch.program[side], _lanes(launch, side, offset)) for side in (one, other)]
    ranks = [combine(*values) for values in zip(*sides, strict=True) for combine in (np.minimum, np.maximum)]
    order = np.lexsort((*reversed(ranks), offset))
    sources = launch.source[one], launch.source[other]
    key = (np.minimum(*sources) * len(launch.sources) + np.maximum(*sources)) * 2 + identical
    _, lowest = np.unique(key[order], return_index=True)
    return [
        Race(
            between,
            int(offset[place]),
            _side(launch, int(one[place]), int(offset[place])),
            _side(launch, int(other[place]), int(offset[place])),
            bool(identical[place]),
            launch.launched,
        )
        for place in order[np.sort(lowest)]
    ]


def _widths(launch: RecordedLaunch) -> Integers:
    widths: Integers = launch.sources.width[launch.source]
    return widths


def _stores(launch: RecordedLaunch) -> NDArray[np.bool_]:
    stores: NDArray[np.bool_] = launch.sources.is_store[launch.source]
    return stores


def _warps(launch: RecordedLaunch, records: Integers, offset: Integers) -> Integers:
    """For each byte, the warp that owns the lane with which a record touches it."""
    sources = launch.sources
    warps: Integers = sources.owner[sources.first_lane[launch.source[records]] + _lanes(launch, records, offset)]
    return warps


def _lanes(launch: RecordedLaunch, records: Integers, offset: Integers) -> Integers:
    """For each byte, the lane with which a record touches it."""
    return launch.lane[records] + (offset - launch.offset[records]) // _widths(launch)[records]


def _identical(launch: RecordedLaunch, one: Integers, other: Integers, offset: Integers) -> Integers:
    """For each byte, 1 if both records stored the same value there."""
    stores = _stores(launch)
    both = np.nonzero(stores[one] & stores[other])[0]
    identical = np.zeros(len(one), dtype=np.int64)
    values = [
        launch.stored[launch.stored_at[records[both]] + offset[both] - launch.offset[records[both]]]
        for records in (one, other)
    ]
    identical[both] = values[0] == values[1]
    return identical


def _side(launch: RecordedLaunch, record: int, offset: int) -> RacingAccess:
    source = launch.sources[launch.source[record]]
    lane = int(launch.lane[record]) + (offset - int(launch.offset[record])) // source.width
    return RacingAccess(
        launch.program_at(record),
        int(source.warps[lane]),
        lane,
        source.kernel,
        source.file,
        source.function,
        source.line,
        source.is_store,
        source.callers,
    )
