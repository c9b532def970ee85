"""The records that compiled code and Python share: plain arrays of 64-bit words, whose layout is defined only here.

A launch record says what to run and holds the arguments. A watch record says which memory may be touched and
collects faults and recorded accesses; all launches of one executor share it.
"""

from __future__ import annotations

from typing import Final

WORD: Final = 8
"""Bytes of one word."""

# The launch record.
GRID: Final = 0
"""Three words: programs along x, y, z."""
PROGRAMS: Final = 3
"""Their product."""
ORDER: Final = 4
"""Address of `PROGRAMS` words, the linear program ids in execution order; 0 for the natural order."""
WATCH: Final = 5
"""Address of the watch record."""
SPAN_CACHE: Final = 6
"""Address of two words for each access site: the span it hit last. See `SpanCache`."""
LINES: Final = 7
"""Address of one byte for each recorded block, set to 1 when the block runs."""
ARGUMENTS: Final = 8
"""From here on, one word for each argument of the kernel."""

# The watch record.
SPAN_COUNT: Final = 0
SPAN_STARTS: Final = 1
"""Address of the sorted first addresses of the spans."""
SPAN_SIZES: Final = 2
"""Address of their sizes in bytes."""
FAULT_COUNT: Final = 3
"""Faults seen, recorded or not."""
FAULT_CAPACITY: Final = 4
FAULTS: Final = 5
"""Address of `FAULT_CAPACITY` fault records."""
RECORD_COUNT: Final = 6
"""Accesses recorded since this was last set to 0, kept or not."""
RECORD_CAPACITY: Final = 7
RECORDS: Final = 8
"""Address of `RECORD_CAPACITY` access records."""
STORED_SIZE: Final = 9
"""Bytes that recorded stores have written since this was last set to 0, kept or not."""
STORED_CAPACITY: Final = 10
STORED: Final = 11
"""Address of `STORED_CAPACITY` bytes for them."""
SPANS_WRITABLE: Final = 12
"""Address of one byte for each span, 0 where kernels must not write."""
SHADOWS: Final = 13
"""The offset from an address to its shadow."""
ORIGIN: Final = 14
"""Where an uninitialised value was last read."""
HIDDEN: Final = 15
"""The offset to subtract from an address to get its location in this process."""
LIVE: Final = 16
"""Number of programs in flight at a time, where they are interleaved."""
SEED: Final = 17
"""The seed of their schedule; not 0."""
FRAMES: Final = 18
"""Address of memory for the frames of programs."""
FRAME: Final = 19
"""Address of the frame of the program that is being started."""
WARP: Final = 20
"""The warp whose access comes next, where warps are interleaved and accesses recorded."""
WATCH_WORDS: Final = 21

# A fault record.
FAULT_SITE: Final = 0
FAULT_ADDRESS: Final = 1
FAULT_LANE: Final = 2
FAULT_PROGRAM: Final = 3
FAULT_KIND: Final = 4
"""One of the kinds that follow. For the last two, FAULT_ADDRESS is where an uninitialised value was last read."""
FAULT_WORDS: Final = 5

OUT_OF_BOUNDS: Final = 0
MISALIGNED: Final = 1
READ_ONLY: Final = 2
"""A store to a span that is not writable; also if it is misaligned."""
UNDEFINED_ADDRESS: Final = 3
UNDEFINED_BRANCH: Final = 4
"""A mask, a condition or the bound of a loop."""

# An access record: `ACCESS_COUNT` lanes from `ACCESS_LANE` on, consecutive in memory from `ACCESS_ADDRESS` on.
ACCESS_SITE: Final = 0
ACCESS_PROGRAM: Final = 1
ACCESS_EPOCH: Final = 2
"""Barriers that the program has passed."""
ACCESS_ADDRESS: Final = 3
ACCESS_LANE: Final = 4
ACCESS_COUNT: Final = 5
ACCESS_STORED: Final = 6
"""The index of a store's first byte in the stored bytes."""
ACCESS_WORDS: Final = 7

ENTRY_POINT: Final = "run"
"""The compiled function: takes the address of a launch record, returns the watch record's fault count."""
