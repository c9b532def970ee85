"""A record describes one state to the kernels: eight 64-bit integers, one cache line.

The kernels need no other metadata and no compile-time switch for the conv layout. Both layouts are the same
thing, runs of tokens: a block holds `RUNS` runs, `RUN_STRIDE` bytes apart, and a run holds `WINDOW` tokens of
`UNIT` bytes. An SD conv state is one run whose tokens are whole rows; a DS conv state has a run for each of
its rows, whose tokens are single elements. A temporal state is one run that is never shifted: `WINDOW` is 0,
`UNIT` its natural bytes.

The bytes of a block are copied in `TILES` tiles, so that many programs can share one state. A second table, of one
64-bit integer for each tile of a request, says in its upper half which state the tile belongs to and in its lower half
which of that state's tiles it is.

Addresses keep their 64 bits: those past 2**63 are stored as the negative number of the same bits.
"""

import triton.language as tl

ADDRESS = tl.constexpr(0)
"""Address of block 0."""
BLOCK_STRIDE = tl.constexpr(1)
"""Bytes from one block to the next."""
WINDOW = tl.constexpr(2)
"""Tokens in a conv window; 0 for a temporal state."""
UNIT = tl.constexpr(3)
"""Bytes of one token inside a run; for a temporal state the natural bytes of a block."""
RUNS = tl.constexpr(4)
"""Runs in a block."""
RUN_STRIDE = tl.constexpr(5)
"""Bytes from one run to the next; where there is only one, the bytes of that run."""
TABLE = tl.constexpr(6)
"""Address of the block table of the state's group."""
TILES = tl.constexpr(7)
"""Tiles of a block."""
RECORD_FIELDS = tl.constexpr(8)
"""Integers from one record to the next."""

LANE_BYTES = tl.constexpr(8)
"""Bytes that one lane moves of a tile; a tile is LANES times as long."""
