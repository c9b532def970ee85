"""Recorded accesses are what one launch loaded and stored, in order, as plain arrays: what the race oracle reads.

One record represents consecutive lanes of one load or store that are adjacent in memory. Offsets are those of the
arena. Two fields say who ran an access: `program` is the linear program id, and the source's `warps` say which warp of
the program owns a lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class RecordedLaunch:
    """The accesses of one launch. All arrays have one entry for each record.

    `source` indexes `sources`; `epoch` is the number of barriers the program had passed; lanes
    `lane .. lane + count - 1` touch `width` bytes each from arena offset `offset` on; what a store wrote is
    `stored[stored_at : stored_at + count * width]`. `launched` are the lines of host code that launched it, innermost
    first; empty if they were not asked for.
    """

    grid: tuple[int, int, int]
    sources: Sequence[AccessSource]
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
