"""Moves are what a step has to copy: the requests that move their states, shared out to all programs of a launch.

Every program has decided for all requests, a lane for each. So it knows without asking any other which of them move,
and which tiles are its own: all tiles of the step are one line, and each program has an equal part of it.
"""

# A kernel's parameters have Triton's types, which Python's type checkers do not know.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from harness.kernels.fused.copy import PLAIN, copy_otherwise, locate
from harness.kernels.fused.record import RECORD_FIELDS


@triton.jit
def carry_out(
    moves,  # lanes whose request moves
    row,  # by lane: row of the request in the block tables
    source_column,  # by lane
    destination_column,  # by lane
    bias,  # by lane
    records,  # int64*: one record per state
    tiles,  # int64*: one record per tile of a request
    tiles_each,  # tiles of a request
    table_stride,
    LANES: tl.constexpr,
):
    """Copy this program's tiles of all states of the requests that move."""
    moving = tl.sum(moves.to(tl.int32), 0)
    if moving > 0:
        rank = tl.cumsum(moves.to(tl.int32), 0) - 1
        # None of the four is negative where a request moves.
        place = (row.to(tl.int64) << 32) | bias.to(tl.int64)
        columns = (source_column.to(tl.int64) << 32) | destination_column.to(tl.int64)
        # This program's share of all tiles: which mover and which of its tiles come first, and how many there are.
        share = moving * tiles_each // tl.num_programs(0)
        more = moving * tiles_each - share * tl.num_programs(0)
        first = tl.program_id(0) * share + tl.minimum(tl.program_id(0), more)
        count = share + (tl.program_id(0) < more).to(tl.int32)
        mover = first // tiles_each
        number = first - mover * tiles_each
        mover_place, mover_columns = _mover(moves & (rank == mover), place, columns)
        tile = tiles + number.to(tl.int64) * RECORD_FIELDS
        source, destination, size, way, skipped = locate(
            tile, mover_place, mover_columns, table_stride, count > 0, LANES
        )
        word = _load(source, tl.where(count > 0, _words(size, way), 0), LANES)
        for done in range(0, count):
            this_tile, this_source, this_destination = tile, source, destination
            this_size, this_way, this_skipped, this_word = size, way, skipped, word
            number += 1
            if number == tiles_each:
                number = 0
                mover += 1
                mover_place, mover_columns = _mover(moves & (rank == mover), place, columns)
            tile = tiles + number.to(tl.int64) * RECORD_FIELDS
            source, destination, size, way, skipped = locate(
                tile, mover_place, mover_columns, table_stride, done + 1 < count, LANES
            )
            word = _load(source, tl.where(done + 1 < count, _words(size, way), 0), LANES)
            # The next tile is on its way before this one leaves.
            _store(this_destination, this_word, _words(this_size, this_way), LANES)
            if this_way != PLAIN:
                copy_otherwise(
                    records, this_tile, this_source, this_destination, this_size, this_way, this_skipped, LANES
                )
            # Warps that keep together read and write a few pages of memory at a time: faster than each by itself.
            tl.debug_barrier()


@triton.jit
def _words(size, way):
    """Words of a plain tile, an even number as the compiler can see; none of any other."""
    return tl.where(way == PLAIN, size // 16 * 2, 0)


@triton.jit
def _load(address, words, LANES: tl.constexpr):
    lane = tl.arange(0, LANES)
    from_ = tl.multiple_of((address & -16).to(tl.pointer_type(tl.uint64)), 16)
    return tl.load(from_ + lane, mask=lane < words, eviction_policy="evict_first")


@triton.jit
def _store(address, word, words, LANES: tl.constexpr):
    lane = tl.arange(0, LANES)
    to = tl.multiple_of((address & -16).to(tl.pointer_type(tl.uint64)), 16)
    tl.store(to + lane, word, mask=lane < words, eviction_policy="evict_first")


@triton.jit
def _mover(chosen, place, columns):
    """The numbers of the one lane that is chosen, handed to all: the others add 0."""
    return tl.sum(tl.where(chosen, place, 0), 0), tl.sum(tl.where(chosen, columns, 0), 0)
