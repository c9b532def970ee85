"""A move copies one state of one request from block to block (docs/domain.md, section 5).

All address arithmetic is in 64 bits: a block id times a block stride passes 2**31 in most real caches.
Accesses are as wide as the addresses at hand allow, up to 8 bytes, and never unaligned.
"""

# A kernel's parameters have Triton's types, which Python's type checkers do not know.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from harness.kernels.fused.record import ADDRESS, BLOCK_STRIDE, RUN_STRIDE, RUNS, TABLE, UNIT, WINDOW


@triton.jit
def move_state(
    record,  # int64*: the state's record
    row,  # row of the request in the block tables
    table_stride,  # elements between two rows of a block table, the same for all groups
    source_column,
    destination_column,
    bias,  # tokens past the first one: how far into the window, or how many columns on
    tile,  # which of the TILES programs that share the temporal copy
    TILES: tl.constexpr,
    LANES: tl.constexpr,
):
    """Move one state from `source_column` to `destination_column`, `bias` tokens on."""
    window = tl.load(record + WINDOW)
    unit = tl.load(record + UNIT)
    address = tl.load(record + ADDRESS)
    block_stride = tl.load(record + BLOCK_STRIDE)
    table = tl.load(record + TABLE).to(tl.pointer_type(tl.int32)) + row.to(tl.int64) * table_stride
    # A temporal state's column says how many tokens it has seen; a conv window has them all in one block.
    temporal_bias = tl.where(window > 0, 0, bias)
    source_block = tl.load(table + source_column + temporal_bias).to(tl.int64)
    destination_block = tl.load(table + destination_column).to(tl.int64)
    source = address + source_block * block_stride
    destination = address + destination_block * block_stride
    if window > 0:
        if tile == 0:  # too small to be worth sharing
            runs = tl.load(record + RUNS)
            run_stride = tl.load(record + RUN_STRIDE)
            _shift_window(source, destination, window, bias, unit, runs, run_stride, LANES)
    else:
        _copy_run(source, destination, unit, tile, TILES, LANES)


@triton.jit
def _shift_window(source, destination, window, bias, unit, runs, run_stride, LANES: tl.constexpr):
    """Copy tokens `bias` to `window` of each run at `source` to the start of each run at `destination`."""
    tokens = window - bias
    first = source + bias * unit
    bits = first | destination | unit | run_stride
    if (bits & 7) == 0:
        _shift_columns(first, destination, tokens, unit, runs, run_stride, tl.uint64, 8, LANES)
    elif (bits & 3) == 0:
        _shift_columns(first, destination, tokens, unit, runs, run_stride, tl.uint32, 4, LANES)
    elif (bits & 1) == 0:
        _shift_columns(first, destination, tokens, unit, runs, run_stride, tl.uint16, 2, LANES)
    else:
        _shift_columns(first, destination, tokens, unit, runs, run_stride, tl.uint8, 1, LANES)


@triton.jit
def _shift_columns(
    source,
    destination,
    tokens,
    unit,
    runs,
    run_stride,
    WORD: tl.constexpr,
    WORD_BYTES: tl.constexpr,
    LANES: tl.constexpr,
):
    """Copy `tokens` tokens of each run, where source and destination may be the same block.

    A column is one word of every token of a run. Each column belongs to one lane, which moves it token by
    token from the first to the last: in a shift to the left a lane reads each word before it overwrites it
    itself, and no lane ever touches a word of another. So the shift is a memmove however the lanes are timed.
    """
    unit_words = unit // WORD_BYTES
    run_words = run_stride // WORD_BYTES
    columns = runs * unit_words
    source_words = source.to(tl.pointer_type(WORD))
    destination_words = destination.to(tl.pointer_type(WORD))
    for first_column in range(0, columns, LANES):
        column = first_column + tl.arange(0, LANES)
        run = column // unit_words
        offset = run * run_words + (column - run * unit_words)
        for token in range(0, tokens):
            place = offset + token * unit_words
            word = tl.load(source_words + place, mask=column < columns)
            tl.store(destination_words + place, word, mask=column < columns)


@triton.jit
def _copy_run(source, destination, size, tile, TILES: tl.constexpr, LANES: tl.constexpr):
    """Copy this tile's part of `size` bytes, where source and destination are apart or the same."""
    if ((source ^ destination) & 7) == 0:
        # Both reach an 8-byte boundary after the same few bytes.
        head = tl.minimum(-destination & 7, size)
        words = (size - head) // 8
        tail = head + words * 8
        _copy_words(source + head, destination + head, words, tile, TILES, tl.uint64, LANES)
        if tile == 0:
            _copy_few_bytes(source, destination, head)
            _copy_few_bytes(source + tail, destination + tail, size - tail)
    else:
        bits = source | destination | size
        if (bits & 1) != 0:
            _copy_words(source, destination, size, tile, TILES, tl.uint8, LANES)
        elif (bits & 2) != 0:
            _copy_words(source, destination, size // 2, tile, TILES, tl.uint16, LANES)
        else:
            _copy_words(source, destination, size // 4, tile, TILES, tl.uint32, LANES)


@triton.jit
def _copy_words(source, destination, count, tile, TILES: tl.constexpr, WORD: tl.constexpr, LANES: tl.constexpr):
    """Copy every TILES-th piece of LANES aligned words, from piece `tile` on, out of `count` words."""
    source_words = source.to(tl.pointer_type(WORD))
    destination_words = destination.to(tl.pointer_type(WORD))
    for first in range(tile.to(tl.int64) * LANES, count, TILES * LANES):
        index = first + tl.arange(0, LANES)
        word = tl.load(source_words + index, mask=index < count)
        tl.store(destination_words + index, word, mask=index < count)


@triton.jit
def _copy_few_bytes(source, destination, count):
    """Copy `count` bytes, fewer than 8."""
    index = tl.arange(0, 8)
    byte = tl.load(source.to(tl.pointer_type(tl.uint8)) + index, mask=index < count)
    tl.store(destination.to(tl.pointer_type(tl.uint8)) + index, byte, mask=index < count)
