"""Moves are what a step has to copy: the requests that move their states, shared out to all programs of a launch.

Every program has decided for all requests, a lane for each. So it knows without asking any other which of them move,
and which tiles are its own: tile `i` of the whole step belongs to program `i` modulo the number of programs.
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
        end = moving * tiles_each
        index = tl.program_id(0)
        mover = index // tiles_each
        mover_place, mover_columns = _mover(moves & (rank == mover), place, columns)
        tile = tiles + (index - mover * tiles_each) * RECORD_FIELDS
        source, destination, size, way, skipped = locate(
            tile, mover_place, mover_columns, table_stride, index < end, LANES
        )
        while index < end:
            words = tl.where(way == PLAIN, size // 16 * 2, 0)  # an even number, as the compiler can see
            lane = tl.arange(0, LANES)
            from_ = tl.multiple_of((source & -16).to(tl.pointer_type(tl.uint64)), 16) + lane
            to = tl.multiple_of((destination & -16).to(tl.pointer_type(tl.uint64)), 16) + lane
            word = tl.load(from_, mask=lane < words, eviction_policy="evict_first")
            # Where the next tile goes is worked out while this one arrives.
            index += tl.num_programs(0)
            next_mover = index // tiles_each
            next_tile = tiles + (index - next_mover * tiles_each) * RECORD_FIELDS
            if next_mover != mover:
                mover = next_mover
                mover_place, mover_columns = _mover(moves & (rank == mover), place, columns)
            next_source, next_destination, next_size, next_way, next_skipped = locate(
                next_tile, mover_place, mover_columns, table_stride, index < end, LANES
            )
            tl.store(to, word, mask=lane < words, eviction_policy="evict_first")
            if way != PLAIN:
                copy_otherwise(records, tile, source, destination, size, way, skipped, LANES)
            tile, source, destination, size = next_tile, next_source, next_destination, next_size
            way, skipped = next_way, next_skipped
            # Warps that keep together read and write a few pages of memory at a time: faster than each by itself.
            tl.debug_barrier()


@triton.jit
def _mover(chosen, place, columns):
    """The numbers of the one lane that is chosen, handed to all: the others add 0."""
    return tl.sum(tl.where(chosen, place, 0), 0), tl.sum(tl.where(chosen, columns, 0), 0)
