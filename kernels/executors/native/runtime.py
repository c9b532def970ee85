"""The watch is what compiled code reads and reports to: the memory that may be touched, and the refused accesses."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from harness.code_lines import CodeLine
from harness.kernels.executors.base import AccessFault, AccessSpan, AllowedSpans, Violation
from harness.kernels.executors.native import abi
from harness.kernels.executors.native.accesses import AccessSite
from harness.kernels.executors.native.interleaving_ir import FRAME_BYTES, MOST_LIVE, MOST_WARPS
from harness.kernels.executors.native.reserve import reserve

FAULT_CAPACITY = 64
"""Maximum number of faults kept for one case; the others are only counted."""

_WORD_MASK = (1 << 64) - 1
_VIOLATIONS: dict[int, Violation] = {
    abi.OUT_OF_BOUNDS: "out-of-bounds",
    abi.MISALIGNED: "misaligned",
    abi.READ_ONLY: "read-only",
    abi.UNDEFINED_ADDRESS: "undefined-address",
    abi.UNDEFINED_BRANCH: "undefined-branch",
}


KNOWN_SPANS = 16
"""Maximum number of tuples of spans whose merged form is kept."""


class Watch:
    """The watch record of one executor, and the arrays it points to."""

    def __init__(self) -> None:
        self._faults = np.zeros((FAULT_CAPACITY, abi.FAULT_WORDS), dtype=np.uint64)
        self._record = np.zeros(abi.WATCH_WORDS, dtype=np.uint64)
        self._record[abi.FAULT_CAPACITY] = FAULT_CAPACITY
        self._record[abi.FAULTS] = self._faults.ctypes.data
        self._base = 0
        self._frames: np.ndarray | None = None
        self._kept: tuple[AccessSpan, ...] | None = None
        self._more: tuple[AccessSpan, ...] = ()
        self._known: dict[int, tuple[tuple[AccessSpan, ...], np.ndarray, np.ndarray, np.ndarray]] = {}
        self._table = _table(())
        self._starts = self._sizes = np.zeros(0, dtype=np.uint64)
        self._writable = np.zeros(0, dtype=np.uint8)
        self._recorded: list[AccessFault] = []
        self.count = 0
        """Faults seen since `begin`, kept or not."""
        self.address = self._record.ctypes.data
        self.record = self._record

    def begin(self, base: int, spans: Sequence[AccessSpan], *, hidden: int = 0, shadows: int = 0) -> None:
        """Forget faults; from now on, `spans` of the arena at address `base` may be touched.

        `hidden` is the offset to subtract from an address to get its location in this process, `shadows` the address in
        this process of the shadow of the arena's first byte.
        """
        self._record[abi.HIDDEN] = hidden
        self._record[abi.SHADOWS] = shadows - base & _WORD_MASK
        self._recorded = []
        self.count = 0
        self._record[abi.FAULT_COUNT] = 0
        kept, more = (spans.fixed, spans.more) if isinstance(spans, AllowedSpans) else (spans, ())
        if isinstance(kept, tuple) and kept is self._kept:
            if base == self._base and more == self._more:
                return
        else:
            self._table = _table(kept)
            self._known = {}
        if base != self._base:
            self._known = {}
        self._kept = kept if isinstance(kept, tuple) else None
        self._more, self._base = more, base
        # Launches of several kernels take turns, each with the same spans again and again.
        known = self._known.get(id(more))
        if known is None:
            starts, sizes, writable = _merged(np.concatenate([self._table, _table(more)]))
            known = more, starts + np.uint64(base), sizes, writable
            if len(self._known) >= KNOWN_SPANS:
                self._known = {}
            if self._kept is not None:
                self._known[id(more)] = known  # it holds the tuple, so that no other one gets its number
        _, self._starts, self._sizes, self._writable = known
        self._record[abi.SPAN_COUNT] = len(self._starts)
        self._record[abi.SPAN_STARTS] = self._starts.ctypes.data
        self._record[abi.SPAN_SIZES] = self._sizes.ctypes.data
        self._record[abi.SPANS_WRITABLE] = self._writable.ctypes.data

    def schedule(self, live: int, seed: str) -> None:
        """Have `live` programs of the next launch in flight at a time, in a schedule drawn from `seed`."""
        if self._frames is None:
            self._frames = reserve(MOST_LIVE * MOST_WARPS * FRAME_BYTES)
            self._record[abi.FRAMES] = self._frames.ctypes.data
        self._record[abi.LIVE] = min(live, MOST_LIVE)
        digest = hashlib.blake2b(seed.encode(), digest_size=8).digest()
        self._record[abi.SEED] = int.from_bytes(digest, "little") or 1

    def collect(
        self,
        count: int,
        kernel: str,
        sites: Sequence[AccessSite],
        grid: tuple[int, int, int],
        launched: tuple[CodeLine, ...] = (),
    ) -> None:
        """Keep the faults that one launch added; `count` is the record's count after it, `launched` the host's lines
        that launched it."""
        for words in self._faults[min(self.count, FAULT_CAPACITY) : min(count, FAULT_CAPACITY)].tolist():
            site, program = sites[words[abi.FAULT_SITE]], words[abi.FAULT_PROGRAM]
            # An address may be below the arena, or be any 64 bits: the offset is signed.
            offset = (words[abi.FAULT_ADDRESS] - self._base + (1 << 63) & _WORD_MASK) - (1 << 63)
            self._recorded.append(
                AccessFault(
                    violation=_VIOLATIONS[words[abi.FAULT_KIND]],
                    is_store=site.is_store,
                    offset=offset,
                    width=site.width,
                    kernel=kernel,
                    file=site.line.file if site.line else "",
                    source=site.line.function if site.line else "",
                    line=site.line.line if site.line else 0,
                    program=(program % grid[0], program // grid[0] % grid[1], program // grid[0] // grid[1]),
                    lane=words[abi.FAULT_LANE],
                    callers=site.callers,
                    launched=launched,
                )
            )
        self.count = count

    def faults(self) -> tuple[AccessFault, ...]:
        """The first faults since `begin`, at most FAULT_CAPACITY, in the order they happened."""
        return tuple(self._recorded)


def merged(spans: Sequence[AccessSpan]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts and sizes (uint64, sorted, disjoint) of spans, and a byte for each that is 1 if it is writable.

    Spans that overlap are views of one object and become one, which is writable if any of them is. Spans that
    only touch are two objects: an access across their border is out of bounds.
    """
    return _merged(_table(spans))


def _table(spans: Sequence[AccessSpan]) -> np.ndarray:
    """Start, size and whether it is writable, for each span that has bytes."""
    kept = [(span.start, span.size, span.writable) for span in spans if span.size > 0]
    return np.array(kept, dtype=np.int64).reshape(-1, 3)


def _merged(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = table[np.argsort(table[:, 0], kind="stable")]
    starts, ends = table[:, 0], table[:, 0] + table[:, 1]
    reach = np.maximum.accumulate(ends)
    first = np.ones(len(starts), dtype=bool)
    first[1:] = starts[1:] >= reach[:-1]
    last = np.ones(len(starts), dtype=bool)
    last[:-1] = first[1:]
    lows = starts[first].astype(np.uint64)
    (borders,) = np.nonzero(first)
    writable = np.maximum.reduceat(table[:, 2], borders) if len(borders) else table[:, 2]
    return lows, reach[last].astype(np.uint64) - lows, writable.astype(np.uint8)
