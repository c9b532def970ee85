"""A tile is the part of one state's block that one program copies at a time (docs/domain.md, section 5).

All address arithmetic is in 64 bits: a block id times a block stride passes 2**31 in most real caches. Accesses are as
wide as source and destination allow, up to 16 bytes for each thread, and never unaligned.
"""

# A kernel's parameters have Triton's types, which Python's type checkers do not know.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from harness.kernels.fused.record import (
    ADDRESS,
    BLOCK_STRIDE,
    LANE_BYTES,
    RECORD_FIELDS,
    RUN_STRIDE,
    RUNS,
    TABLE,
    TILES,
    UNIT,
    WINDOW,
)


@triton.jit
def copy_tile(
    records,  # int64*: one record per state
    state,
    tile,  # which of the state's tiles
    row,  # row of the request in the block tables
    table_stride,  # elements between two rows of a block table, the same for all groups
    source_column,
    destination_column,
    bias,  # tokens past the first one: how far into the window, or how many columns on
    LANES: tl.constexpr,
    FEW: tl.constexpr,
):
    """Copy one tile of one state from `source_column` to `destination_column`, `bias` tokens on.

    The tiles of a state are independent of each other: none writes what another one reads or writes.
    """
    record = records + state * RECORD_FIELDS
    address = tl.load(record + ADDRESS)
    block_stride = tl.load(record + BLOCK_STRIDE)
    window = tl.load(record + WINDOW)
    unit = tl.load(record + UNIT)
    runs = tl.load(record + RUNS)
    run_stride = tl.load(record + RUN_STRIDE)
    tiles = tl.load(record + TILES).to(tl.int32)
    table = tl.load(record + TABLE).to(tl.pointer_type(tl.int32)) + row.to(tl.int64) * table_stride
    # A temporal state's column says how many tokens it has seen; a conv window has them all in one block.
    temporal_bias = tl.where(window > 0, 0, bias)
    window_bias = bias - temporal_bias
    source_block = tl.load(table + source_column + temporal_bias).to(tl.int64)
    destination_block = tl.load(table + destination_column).to(tl.int64)
    source = address + source_block * block_stride + window_bias * unit
    destination = address + destination_block * block_stride
    tokens = tl.where(window > 0, window - window_bias, 1)
    if tokens > 0:
        apart = (source_block != destination_block) | (window_bias == 0)
        # Runs without gaps between them, and a single one whatever it leaves out, are one run.
        gapless = (runs == 1) | ((run_stride == window * unit) & (window_bias == 0))
        if apart & gapless:
            _copy_run(source, destination, runs * tokens * unit, tile, LANES)
        elif apart:
            _copy_elements(source, destination, tokens, unit, runs, run_stride, tile, tiles, FEW)
        else:
            _shift_window(source, destination, tokens, unit, runs, run_stride, tile, tiles, FEW)


@triton.jit
def _copy_run(source, destination, size, tile, LANES: tl.constexpr):
    """Copy this tile of a run of `size` bytes, where source and destination are apart or the same."""
    differing = source ^ destination
    if (differing & 15) == 0:
        _copy_words(source, destination, size, tile, tl.uint64, 8, 16, LANES)
    elif (differing & 7) == 0:
        _copy_words(source, destination, size, tile, tl.uint64, 8, 8, LANES)
    elif (differing & 3) == 0:
        _copy_words(source, destination, size, tile, tl.uint32, 4, 4, LANES)
    elif (differing & 1) == 0:
        _copy_words(source, destination, size, tile, tl.uint16, 2, 2, LANES)
    else:
        _copy_words(source, destination, size, tile, tl.uint8, 1, 1, LANES)


@triton.jit
def _copy_words(
    source,
    destination,
    size,
    tile,
    WORD: tl.constexpr,
    WORD_BYTES: tl.constexpr,
    ALIGNMENT: tl.constexpr,
    LANES: tl.constexpr,
):
    """Copy a tile of a run in words. Source and destination reach a multiple of ALIGNMENT after the same few bytes:
    these, and what is left behind the last multiple, are part of the first tile."""
    first = -destination & (ALIGNMENT - 1)
    head = tl.minimum(first, size)
    body = (size - head) // ALIGNMENT * ALIGNMENT
    start = tile.to(tl.int64) * (LANES * LANE_BYTES)
    left = tl.minimum(tl.maximum(body - start, 0), LANES * LANE_BYTES).to(tl.int32)
    # Dividing and multiplying changes nothing: it shows the compiler what this is a multiple of.
    words = left // ALIGNMENT * (ALIGNMENT // WORD_BYTES)
    from_ = tl.multiple_of((source + first + start).to(tl.pointer_type(WORD)), ALIGNMENT)
    to = tl.multiple_of((destination + first + start).to(tl.pointer_type(WORD)), ALIGNMENT)
    for done in range(0, words, LANES):
        index = done + tl.arange(0, LANES)
        word = tl.load(from_ + index, mask=index < words, eviction_policy="evict_first")
        tl.store(to + index, word, mask=index < words, eviction_policy="evict_first")
    if ALIGNMENT > 1:
        if tile == 0:
            _copy_few_bytes(source, destination, head, ALIGNMENT)
            tail = head + body
            _copy_few_bytes(source + tail, destination + tail, size - tail, ALIGNMENT)


@triton.jit
def _copy_few_bytes(source, destination, count, MOST: tl.constexpr):
    """Copy `count` bytes, fewer than MOST."""
    if count > 0:
        index = tl.arange(0, MOST)
        byte = tl.load(source.to(tl.pointer_type(tl.uint8)) + index, mask=index < count)
        tl.store(destination.to(tl.pointer_type(tl.uint8)) + index, byte, mask=index < count)


@triton.jit
def _copy_elements(
    source, destination, tokens, unit, runs, run_stride, tile, tiles, LANES: tl.constexpr
):
    """Copy this tile's share of `runs` runs, of `tokens` elements each, where source and destination are apart."""
    if unit == 8:
        _copy_runs(source, destination, tokens, runs, run_stride, tile, tiles, tl.uint64, 8, LANES)
    elif unit == 4:
        _copy_runs(source, destination, tokens, runs, run_stride, tile, tiles, tl.uint32, 4, LANES)
    elif unit == 2:
        _copy_runs(source, destination, tokens, runs, run_stride, tile, tiles, tl.uint16, 2, LANES)
    else:
        _copy_runs(source, destination, tokens, runs, run_stride, tile, tiles, tl.uint8, 1, LANES)


@triton.jit
def _copy_runs(
    source,
    destination,
    tokens,
    runs,
    run_stride,
    tile,
    tiles,
    WORD: tl.constexpr,
    WORD_BYTES: tl.constexpr,
    LANES: tl.constexpr,
):
    """Neighbouring lanes take neighbouring elements, whatever run they are of: threads share the lines of a cache."""
    share = tl.cdiv(runs, tiles)
    first_run = tile * share
    count = (tl.minimum(share, runs - first_run) * tokens).to(tl.int32)
    from_ = (source + first_run * run_stride).to(tl.pointer_type(WORD))
    to = (destination + first_run * run_stride).to(tl.pointer_type(WORD))
    run_words = run_stride // WORD_BYTES
    tokens_each = tokens.to(tl.int32)
    for first in range(0, count, LANES):
        index = first + tl.arange(0, LANES)
        run = index // tokens_each
        place = run * run_words + (index - run * tokens_each)
        word = tl.load(from_ + place, mask=index < count)
        tl.store(to + place, word, mask=index < count)


@triton.jit
def _shift_window(
    source, destination, tokens, unit, runs, run_stride, tile, tiles, LANES: tl.constexpr
):
    """Shift a window to the left inside its block: `tokens` tokens of each run at `source` move to `destination`."""
    bits = source | destination | unit | run_stride
    if (bits & 7) == 0:
        _shift_columns(source, destination, tokens, unit, runs, run_stride, tile, tiles, tl.uint64, 8, LANES)
    elif (bits & 3) == 0:
        _shift_columns(source, destination, tokens, unit, runs, run_stride, tile, tiles, tl.uint32, 4, LANES)
    elif (bits & 1) == 0:
        _shift_columns(source, destination, tokens, unit, runs, run_stride, tile, tiles, tl.uint16, 2, LANES)
    else:
        _shift_columns(source, destination, tokens, unit, runs, run_stride, tile, tiles, tl.uint8, 1, LANES)


@triton.jit
def _shift_columns(
    source,
    destination,
    tokens,
    unit,
    runs,
    run_stride,
    tile,
    tiles,
    WORD: tl.constexpr,
    WORD_BYTES: tl.constexpr,
    LANES: tl.constexpr,
):
    """Shift this tile's share of the columns of a window.

    A column is one word of every token of a run. Each column belongs to one lane of one tile, which moves it token by
    token from the first to the last: in a shift to the left a lane reads each word before it overwrites it itself, and
    no lane ever touches a word of another. So the shift is a memmove however lanes and programs are timed.
    """
    unit_words = (unit // WORD_BYTES).to(tl.int32)
    run_words = run_stride // WORD_BYTES
    columns = runs.to(tl.int32) * unit_words
    share = tl.cdiv(columns, tiles)
    end = tl.minimum((tile + 1) * share, columns)
    from_ = source.to(tl.pointer_type(WORD))
    to = destination.to(tl.pointer_type(WORD))
    for first in range(tile * share, end, LANES):
        column = first + tl.arange(0, LANES)
        run = column // unit_words
        place = run * run_words + (column - run * unit_words)
        for token in range(0, tokens):
            word = tl.load(from_ + token * unit_words + place, mask=column < end)
            tl.store(to + token * unit_words + place, word, mask=column < end)
