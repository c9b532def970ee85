"""Recorded accesses are what one launch loaded and stored, in order, as plain arrays: what the race oracle reads.

One record represents consecutive lanes of one load or store that are adjacent in memory. Offsets are those of the
arena. Two fields say who ran an access: `program` is the linear program id, and the source's `warps` say which warp of
the program owns a lane.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.code_lines import CodeLine

Integers = NDArray[np.int64]

MemoryOrder = Literal["", "relaxed", "acquire", "release", "acq_rel"]
"""What an atomic access orders: nothing (relaxed), what comes after it (acquire), what came before it (release), both.
Empty for an access that is not atomic."""


class Threads(NamedTuple):
    """Who runs an access: `warps[lane]` is the warp that owns a lane.

    `phase` counts the barriers in front of it that the compiler put into the kernel's body; negative if unknown.
    """

    warps: NDArray[np.uint8]
    phase: int = -1


@dataclass(frozen=True)
class AccessSource:
    """A load or store in a kernel's text: `line` of `file`, in `function`. `width` is bytes for each lane. An atomic
    access both loads and stores; it counts as a store.

    `threads` says who runs it. It is a function, since the answer takes a compiler, and for most launches it is never
    needed. `callers` are the lines of the calls that lead to it inside the kernel, innermost first.
    """

    kernel: str
    file: str
    function: str
    line: int
    is_store: bool
    width: int
    threads: Callable[[], Threads]
    order: MemoryOrder = ""
    callers: tuple[CodeLine, ...] = ()

    @property
    def warps(self) -> NDArray[np.uint8]:
        """The warp of each lane."""
        return self.threads().warps

    @property
    def phase(self) -> int:
        """The phase it is in."""
        return self.threads().phase


class AccessSources(tuple[AccessSource, ...]):
    """The loads and stores of one kernel, and columns over all of them, which are worked out once for many launches.

    `first_lane` is the place of a source's lane 0 in the columns of lanes.
    """

    @cached_property
    def width(self) -> Integers:
        """Bytes for each lane, of each source."""
        return np.array([source.width for source in self], dtype=np.int64)

    @cached_property
    def is_store(self) -> NDArray[np.bool_]:
        """Whether each source is a store."""
        return np.array([source.is_store for source in self], dtype=bool)

    @cached_property
    def is_atomic(self) -> NDArray[np.bool_]:
        """Whether each source is an atomic access."""
        return np.array([bool(source.order) for source in self], dtype=bool)

    @cached_property
    def phase(self) -> Integers:
        """The phase of each source."""
        return np.array([source.phase for source in self], dtype=np.int64)

    @cached_property
    def first_lane(self) -> Integers:
        """Where the lanes of each source begin in `owner` and `changes`."""
        lengths = np.array([len(source.warps) for source in self], dtype=np.int64)
        starts: Integers = np.cumsum(lengths) - lengths
        return starts

    @cached_property
    def owner(self) -> Integers:
        """The warp of each lane, source by source."""
        return np.concatenate([source.warps for source in self]).astype(np.int64)

    @cached_property
    def arrangement(self) -> Integers:
        """A number for each source: sources with the same number have the same width and the same warp at each lane."""
        known: dict[tuple[int, bytes], int] = {}
        keys = [(source.width, source.warps.tobytes()) for source in self]
        return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)

    @cached_property
    def changes(self) -> Integers:
        """How often the warp has changed up to each lane: lanes with the same number have the same warp."""
        return np.append(0, np.cumsum(self.owner[1:] != self.owner[:-1]))


@dataclass(frozen=True)
class RecordedLaunch:
    """The accesses of one launch. All arrays have one entry for each record.

    `source` indexes `sources`; `epoch` is the number of barriers the program had passed; lanes
    `lane .. lane + count - 1` touch `width` bytes each from arena offset `offset` on; what a store wrote is
    `stored[stored_at : stored_at + count * width]`. `launched` are the lines of host code that launched it, innermost
    first; empty if they were not asked for.
    """

    grid: tuple[int, int, int]
    sources: AccessSources
    source: Integers
    program: Integers
    epoch: Integers
    offset: Integers
    lane: Integers
    count: Integers
    stored_at: Integers
    stored: NDArray[np.uint8]
    launched: tuple[CodeLine, ...] = ()

    def program_at(self, record: int) -> tuple[int, int, int]:
        """Grid indices of the program of a record."""
        program = int(self.program[record])
        x, y, _ = self.grid
        return program % x, program // x % y, program // x // y
