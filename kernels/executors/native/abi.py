"""The records that compiled code and Python share: plain arrays of 64-bit words, laid out in this file alone.

A launch record says what to run and holds the arguments. A watch record says which memory may be touched and
collects faults; all launches of one executor share it.
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
"""Address of `PROGRAMS` words, the linear program ids in the order to run them; 0 for the natural order."""
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
WATCH_WORDS: Final = 6

# A fault record.
FAULT_SITE: Final = 0
FAULT_ADDRESS: Final = 1
FAULT_LANE: Final = 2
FAULT_PROGRAM: Final = 3
FAULT_INSIDE: Final = 4
"""1 if the access lies inside a span, and so is only misaligned."""
FAULT_WORDS: Final = 5

ENTRY_POINT: Final = "run"
"""The compiled function: takes the address of a launch record, returns the watch record's fault count."""
