"""A tile is the part of one state's block that one program copies at a time (docs/domain.md, section 5).

Most tiles are plain, runs of bytes at multiples of 16, and are copied where they are assigned (moves.py); this file has
what the others need. All address arithmetic is in 64 bits: a block id times a block stride passes 2**31 in most real
caches. Accesses are as wide as source and destination allow, up to 16 bytes for each thread, and always aligned.
"""

# A kernel's parameters have Triton's types, which Python's type checkers do not know.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from harness.kernels.fused.record import (
    FEW_LANES,
    GAPLESS,
    LANE_BYTES,
    ONE_RUN,
    RECORD_FIELDS,
    RUN_STRIDE,
    RUNS,
    TEMPORAL,
    TILE_ADDRESS,
    TILE_BLOCK_STRIDE,
    TILE_LEFT,
    TILE_NUMBER,
    TILE_STATE,
    TILE_TABLE,
    TILE_UNIT,
    TILES,
    UNIT,
    WINDOW,
    WINDOW_LANES,
)

PLAIN = tl.constexpr(0)
"""A tile is one run of bytes, at multiples of 16."""
BYTES = tl.constexpr(1)
"""A tile is one run of bytes anywhere."""
ELEMENTS = tl.constexpr(2)
"""A tile is a share of the runs of a window."""
SHIFT = tl.constexpr(3)
"""A tile is a share of the columns of a window that is shifted inside its block."""


@triton.jit
def look_up_tile(
    tile,  # int64*: the tile's record
    # Constants are parameters here, see record.py.
    TILE_ADDRESS: tl.constexpr = TILE_ADDRESS,
    TILE_BLOCK_STRIDE: tl.constexpr = TILE_BLOCK_STRIDE,
    TILE_TABLE: tl.constexpr = TILE_TABLE,
    TILE_LEFT: tl.constexpr = TILE_LEFT,
    TILE_UNIT: tl.constexpr = TILE_UNIT,
):
    """What a tile's record says of it: address, block stride, table, bytes left, and unit and kind."""
    address = tl.load(tile + TILE_ADDRESS)
    block_stride = tl.load(tile + TILE_BLOCK_STRIDE)
    table = tl.load(tile + TILE_TABLE)
    left = tl.load(tile + TILE_LEFT)
    unit_and_kind = tl.load(tile + TILE_UNIT)
    return address, block_stride, table, left, unit_and_kind


@triton.jit
def look_up_blocks(
    table,
    unit_and_kind,
    row,  # of the request in the block tables
    source_column,
    destination_column,
    bias,  # how many tokens past the first one the state is
    table_stride,  # elements between two rows of a block table, the same for all groups
    inside,  # if not, nothing is looked up, and the result is meaningless
    TEMPORAL: tl.constexpr = TEMPORAL,
):
    """The blocks that a request's tile is copied from and to."""
    # A temporal state's column says how many tokens it has seen; a conv window has all tokens in one block.
    temporal_bias = tl.where((unit_and_kind & 3) == TEMPORAL, bias, 0)
    cells = table.to(tl.pointer_type(tl.int32)) + row * table_stride
    source_block = tl.load(cells + source_column + temporal_bias, mask=inside, other=0)
    destination_block = tl.load(cells + destination_column, mask=inside, other=0)
    return source_block, destination_block


@triton.jit
def locate(
    address,
    block_stride,
    left,
    unit_and_kind,
    source_block,
    destination_block,
    bias,
    LANES: tl.constexpr,
    TEMPORAL: tl.constexpr = TEMPORAL,
    ONE_RUN: tl.constexpr = ONE_RUN,
    GAPLESS: tl.constexpr = GAPLESS,
    PLAIN: tl.constexpr = PLAIN,
    BYTES: tl.constexpr = BYTES,
    ELEMENTS: tl.constexpr = ELEMENTS,
    SHIFT: tl.constexpr = SHIFT,
    LANE_BYTES: tl.constexpr = LANE_BYTES,
):
    """The parameters of a tile's copy: addresses of source and destination, bytes, the way to copy it, and the bias.

    The bias is an offset into a window, or a number of columns.
    """
    unit, kind = unit_and_kind >> 2, unit_and_kind & 3
    source = address + source_block.to(tl.int64) * block_stride + bias * unit
    destination = address + destination_block.to(tl.int64) * block_stride
    size = tl.maximum(tl.minimum(left - bias * unit, LANES * LANE_BYTES), 0).to(tl.int32)
    apart = (source_block != destination_block) | (bias == 0)
    one_run = (kind == TEMPORAL) | ((kind == ONE_RUN) & apart) | ((kind == GAPLESS) & (bias == 0))
    aligned = ((source | destination | size) & 15) == 0
    way = tl.where(one_run, tl.where(aligned, PLAIN, BYTES), tl.where(apart, ELEMENTS, SHIFT))
    return source, destination, size, way, bias


@triton.jit
def copy_otherwise(
    records,
    tile,
    source,
    destination,
    size,
    way,
    bias,
    LANES: tl.constexpr,
    TILE_STATE: tl.constexpr = TILE_STATE,
    TILE_NUMBER: tl.constexpr = TILE_NUMBER,
    RECORD_FIELDS: tl.constexpr = RECORD_FIELDS,
    BYTES: tl.constexpr = BYTES,
    ELEMENTS: tl.constexpr = ELEMENTS,
    LANE_BYTES: tl.constexpr = LANE_BYTES,
):
    """Copy a tile that is not plain, as `locate` says. Tiles are independent of each other: none writes what
    another one reads or writes."""
    if way == BYTES:
        _copy_bytes(source, destination, size, LANES)
    else:
        number = tl.load(tile + TILE_NUMBER)
        record = records + tl.load(tile + TILE_STATE) * RECORD_FIELDS
        start = number * (LANES * LANE_BYTES)
        _copy_window(record, source - start, destination - start, bias, way == ELEMENTS, number, LANES)


@triton.jit
def _copy_bytes(source, destination, size, LANES: tl.constexpr, FEW_LANES: tl.constexpr = FEW_LANES):
    """Copy `size` bytes, at most a tile's, where source and destination are disjoint or the same."""
    few: tl.constexpr = FEW_LANES if LANES > FEW_LANES else LANES
    if ((source ^ destination) & 7) == 0:
        _copy_words(source, destination, size, tl.uint64, 8, LANES)
    elif ((source ^ destination) & 3) == 0:
        _copy_words(source, destination, size, tl.uint32, 4, LANES)
    elif ((source ^ destination) & 1) == 0:
        _copy_words(source, destination, size, tl.uint16, 2, few)
    else:
        _copy_words(source, destination, size, tl.uint8, 1, few)


@triton.jit
def _copy_words(source, destination, size, WORD: tl.constexpr, WORD_BYTES: tl.constexpr, LANES: tl.constexpr):
    """Copy bytes in words. Source and destination have the same few bytes before a multiple of a word's bytes."""
    head = (-destination & (WORD_BYTES - 1)).to(tl.int32)
    words = (size - head) // WORD_BYTES
    from_ = (source + head).to(tl.pointer_type(WORD))
    to = (destination + head).to(tl.pointer_type(WORD))
    for first in range(0, words, LANES):
        index = first + tl.arange(0, LANES)
        word = tl.load(from_ + index, mask=index < words)
        tl.store(to + index, word, mask=index < words)
    if WORD_BYTES > 1:
        _copy_few_bytes(source, destination, tl.minimum(head, size), WORD_BYTES)
        tail = head + words * WORD_BYTES
        _copy_few_bytes(source + tail, destination + tail, size - tail, WORD_BYTES)


@triton.jit
def _copy_few_bytes(source, destination, count, MOST: tl.constexpr):
    """Copy `count` bytes, fewer than MOST; none if it is negative."""
    if count > 0:
        index = tl.arange(0, MOST)
        byte = tl.load(source.to(tl.pointer_type(tl.uint8)) + index, mask=index < count)
        tl.store(destination.to(tl.pointer_type(tl.uint8)) + index, byte, mask=index < count)


@triton.jit
def _copy_window(
    record,
    source,
    destination,
    bias,
    apart,
    tile,
    LANES: tl.constexpr,
    WINDOW: tl.constexpr = WINDOW,
    UNIT: tl.constexpr = UNIT,
    RUNS: tl.constexpr = RUNS,
    RUN_STRIDE: tl.constexpr = RUN_STRIDE,
    TILES: tl.constexpr = TILES,
    FEW_LANES: tl.constexpr = FEW_LANES,
):
    """Copy a tile of a window that does not move as one contiguous run of bytes."""
    unit = tl.load(record + UNIT)
    runs = tl.load(record + RUNS)
    run_stride = tl.load(record + RUN_STRIDE)
    tiles = tl.load(record + TILES)
    tokens = tl.load(record + WINDOW) - bias
    if tokens > 0:
        if apart:
            _copy_elements(source, destination, tokens, unit, runs, run_stride, tile, tiles, LANES)
        else:
            few: tl.constexpr = FEW_LANES if LANES > FEW_LANES else LANES
            _shift_window(source, destination, tokens, unit, runs, run_stride, tile, tiles, few)


@triton.jit
def _copy_elements(
    source,
    destination,
    tokens,
    unit,
    runs,
    run_stride,
    tile,
    tiles,
    LANES: tl.constexpr,
    FEW_LANES: tl.constexpr = FEW_LANES,
    WINDOW_LANES: tl.constexpr = WINDOW_LANES,
):
    """Copy this tile's share of `runs` runs, of `tokens` elements each, where source and destination are disjoint."""
    few: tl.constexpr = FEW_LANES if LANES > FEW_LANES else LANES
    some: tl.constexpr = WINDOW_LANES if LANES > WINDOW_LANES else LANES
    if unit == 8:
        _copy_runs(source, destination, tokens, runs, run_stride, tile, tiles, tl.uint64, 8, few)
    elif unit == 4:
        _copy_runs(source, destination, tokens, runs, run_stride, tile, tiles, tl.uint32, 4, some)
    elif unit == 2:
        _copy_runs(source, destination, tokens, runs, run_stride, tile, tiles, tl.uint16, 2, some)
    else:
        _copy_runs(source, destination, tokens, runs, run_stride, tile, tiles, tl.uint8, 1, few)


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
    """Neighbouring lanes take neighbouring elements, also across runs: threads share the lines of a cache."""
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
def _shift_window(source, destination, tokens, unit, runs, run_stride, tile, tiles, LANES: tl.constexpr):
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

    A column is one word of every token of a run. Each column belongs to one lane of one tile, which moves it from the
    first token to the last, four at a time: in a shift to the left a lane reads each word before it overwrites it
    itself, and no lane ever touches a word of another. So the shift is a memmove for any timing of lanes and programs.
    """
    unit_words = (unit // WORD_BYTES).to(tl.int32)
    run_words = run_stride // WORD_BYTES
    columns = runs.to(tl.int32) * unit_words
    share = tl.cdiv(columns, tiles.to(tl.int32))
    first_column = tile.to(tl.int32) * share
    end = tl.minimum(first_column + share, columns)
    from_ = source.to(tl.pointer_type(WORD))
    to = destination.to(tl.pointer_type(WORD))
    for first in range(first_column, end, LANES):
        column = first + tl.arange(0, LANES)
        run = column // unit_words
        place = run * run_words + (column - run * unit_words)
        for token in range(0, tokens, 4):
            here = token * unit_words + place
            # No token follows the last one.
            second = column < tl.where(token + 1 < tokens, end, 0)
            third = column < tl.where(token + 2 < tokens, end, 0)
            fourth = column < tl.where(token + 3 < tokens, end, 0)
            word = tl.load(from_ + here, mask=column < end)
            second_word = tl.load(from_ + unit_words + here, mask=second)
            third_word = tl.load(from_ + 2 * unit_words + here, mask=third)
            fourth_word = tl.load(from_ + 3 * unit_words + here, mask=fourth)
            tl.store(to + here, word, mask=column < end)
            tl.store(to + unit_words + here, second_word, mask=second)
            tl.store(to + 2 * unit_words + here, third_word, mask=third)
            tl.store(to + 3 * unit_words + here, fourth_word, mask=fourth)
