"""Moves are what a step has to copy: the requests that move their states, distributed to all programs of a launch.

Every program decides for all requests, a lane for each. So it knows without communication which of them move, and which
tiles are its own: tile `i` of the whole step belongs to program `i` modulo the number of programs.
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
    RECORD_FIELDS: tl.constexpr = RECORD_FIELDS,
    PLAIN: tl.constexpr = PLAIN,
):
    """Copy this program's tiles of all states of the requests that move."""
    moving = tl.sum(moves.to(tl.int32), 0)
    if moving > 0:
        rank = tl.cumsum(moves.to(tl.int32), 0) - 1
        # None of the four is negative where a request moves.
        place = (row.to(tl.int64) << 32) | bias.to(tl.int64)
        columns = (source_column.to(tl.int64) << 32) | destination_column.to(tl.int64)
        # This program's tiles, in turn: the mover of each, and which of its tiles it is.
        mover = tl.program_id(0) // tiles_each
        number = tl.program_id(0) - mover * tiles_each
        mover_place, mover_columns = _numbers(moves & (rank == mover), place, columns)
        tile = tiles + number.to(tl.int64) * RECORD_FIELDS
        source, destination, size, way, left_out = locate(
            tile, mover_place, mover_columns, table_stride, mover < moving, LANES
        )
        while mover < moving:
            words = tl.where(way == PLAIN, size // 16 * 2, 0)  # an even number, as the compiler can see
            lane = tl.arange(0, LANES)
            from_ = tl.multiple_of((source & -16).to(tl.pointer_type(tl.uint64)), 16) + lane
            to = tl.multiple_of((destination & -16).to(tl.pointer_type(tl.uint64)), 16) + lane
            # Past the first cache, where the records and the tables stay.
            word = tl.load(from_, mask=lane < words, cache_modifier=".cg")
            # The addresses of the next tile are computed while this one is loaded.
            before = mover
            number += tl.num_programs(0)
            if number >= tiles_each:
                mover += number // tiles_each
                number = number % tiles_each
            if mover != before:
                mover_place, mover_columns = _numbers(moves & (rank == mover), place, columns)
            next_tile = tiles + number.to(tl.int64) * RECORD_FIELDS
            next_source, next_destination, next_size, next_way, next_left_out = locate(
                next_tile, mover_place, mover_columns, table_stride, mover < moving, LANES
            )
            tl.store(to, word, mask=lane < words)
            if way != PLAIN:
                copy_otherwise(records, tile, source, destination, size, way, left_out, LANES)
            tile, source, destination, size = next_tile, next_source, next_destination, next_size
            way, left_out = next_way, next_left_out
            # Warps in lockstep read and write a few pages of memory at a time, which is faster than independent warps.
            tl.debug_barrier()


@triton.jit
def _numbers(chosen, place, columns):
    """The numbers of the one chosen lane, for all lanes: the others add 0."""
    return tl.sum(tl.where(chosen, place, 0), 0), tl.sum(tl.where(chosen, columns, 0), 0)
