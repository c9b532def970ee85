"""Records describe states and tiles to the kernels: eight 64-bit integers each, one cache line.

The kernels need no other metadata and no compile-time switch for the conv layout. Both layouts are the same
thing, runs of tokens: a block holds `RUNS` runs, `RUN_STRIDE` bytes apart, and a run holds `WINDOW` tokens of
`UNIT` bytes. An SD conv state is one run whose tokens are whole rows; a DS conv state has a run for each of
its rows, whose tokens are single elements. A temporal state is one run that is never shifted: `WINDOW` is 0,
`UNIT` its natural bytes.

The bytes of a block are copied in `TILES` tiles, so that many programs can share one state. A tile also has a record,
with everything that is needed to copy it where the state is one contiguous run of bytes. The records of all tiles of a
request follow each other, state by state.

Kernels take these constants as parameters with defaults: at each launch Triton compares every global name that a kernel
mentions with its earlier value, which costs the host more than everything else it does for a launch.

Addresses keep their 64 bits: those past 2**63 are stored as the negative number with the same bits.
"""

import triton.language as tl

RECORD_FIELDS = tl.constexpr(8)
"""Integers from one record to the next."""

# The record of a state.
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

# The record of a tile.
TILE_ADDRESS = tl.constexpr(0)
"""Address of the tile in block 0, where the state is one run."""
TILE_BLOCK_STRIDE = tl.constexpr(1)
TILE_TABLE = tl.constexpr(2)
TILE_LEFT = tl.constexpr(3)
"""Bytes of the run from the tile on."""
TILE_UNIT = tl.constexpr(4)
"""Bytes of one token of a window, 0 for a temporal state; times 4, plus one of the kinds below."""
TILE_STATE = tl.constexpr(5)
"""The state that it belongs to."""
TILE_NUMBER = tl.constexpr(6)
"""The number of the tile in its state. The last integer is unused."""

TEMPORAL = tl.constexpr(0)
ONE_RUN = tl.constexpr(1)
"""A window of one run."""
GAPLESS = tl.constexpr(2)
"""A window of several runs without gaps: one contiguous run of bytes if all of it is copied."""
GAPPED = tl.constexpr(3)
"""A window of runs with gaps."""

COUNTERS = tl.constexpr(3)
"""Counters of the requests that are decided for together. All are 0 between two launches."""
CLAIMED = tl.constexpr(0)
"""Tiles that programs have claimed."""
DONE = tl.constexpr(1)
"""Programs that have nothing more to claim."""
ARRIVED = tl.constexpr(2)
"""Programs that have read all counts."""

WINDOW_LANES = tl.constexpr(512)
"""Maximum number of lanes that copy the elements of a DS window."""

FEW_LANES = tl.constexpr(256)
"""Maximum number of lanes of copies that are rare: words of sizes that no published model has, and shifts of windows.
Each lane more of a thread is more code, and a launch waits until multiprocessors have loaded its code."""

LANE_BYTES = tl.constexpr(8)
"""Bytes of a tile that one lane moves; a tile is LANES times as long."""
