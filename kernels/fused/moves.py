"""Moves are what a step has to copy: the requests that move their states, distributed to all programs of a launch.

Every program decides for all requests, a lane for each. So it knows without communication which of them move, and how
many tiles that makes. The first three tiles of a program are fixed; each further one it claims, by an atomic increment.
Shares of equal size would not do: some multiprocessors copy much faster than others, and have to be given more.

A tile is copied three turns after it was claimed. One turn looks up its record, the next one its blocks, and all these
loads arrive while tiles before it are copied.
"""

# A kernel's parameters have Triton's types, which Python's type checkers do not know.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from harness.kernels.fused.copy import PLAIN, copy_otherwise, locate, look_up_blocks, look_up_tile
from harness.kernels.fused.record import CLAIMED, COUNTERS, DONE, RECORD_FIELDS


@triton.jit
def counters_of(counters, vector, COUNTERS: tl.constexpr = COUNTERS):
    """The counters of one vector of requests."""
    return counters + vector * COUNTERS


@triton.jit
def carry_out(
    moves,  # lanes whose request moves
    row,  # by lane: row of the request in the block tables
    source_column,  # by lane
    destination_column,  # by lane
    bias,  # by lane
    records,  # int64*: one record per state
    tiles,  # int64*: one record per tile of a request
    counters,  # int32*: those of these lanes
    tiles_each,  # tiles of a request
    table_stride,
    LANES: tl.constexpr,
    RECORD_FIELDS: tl.constexpr = RECORD_FIELDS,
    CLAIMED: tl.constexpr = CLAIMED,
    DONE: tl.constexpr = DONE,
    PLAIN: tl.constexpr = PLAIN,
):
    """Copy this program's tiles of all states of the requests that move."""
    moving = tl.sum(moves.to(tl.int32), 0)
    if moving > 0:
        rank = tl.cumsum(moves.to(tl.int32), 0) - 1
        # None of the four is negative where a request moves.
        place = (row.to(tl.int64) << 32) | bias.to(tl.int64)
        columns = (source_column.to(tl.int64) << 32) | destination_column.to(tl.int64)
        total = moving * tiles_each
        programs = tl.num_programs(0)
        # This turn's tile, of which everything is known,
        position = tl.program_id(0)
        mover = position // tiles_each
        mover_place, mover_columns = _numbers(moves & (rank == mover), place, columns)
        tile = tiles + (position - mover * tiles_each).to(tl.int64) * RECORD_FIELDS
        address, block_stride, table, left, unit_and_kind = look_up_tile(tile)
        source_block, destination_block = look_up_blocks(
            table, unit_and_kind, mover_place, mover_columns, table_stride, position < total
        )
        # the next turn's, of which the record is known,
        next_position = position + programs
        next_mover = next_position // tiles_each
        next_place, next_columns = mover_place, mover_columns
        if next_mover != mover:
            next_place, next_columns = _numbers(moves & (rank == next_mover), place, columns)
        next_tile = tiles + (next_position - next_mover * tiles_each).to(tl.int64) * RECORD_FIELDS
        next_address, next_block_stride, next_table, next_left, next_unit_and_kind = look_up_tile(next_tile)
        # and the one after that, of which only the number is.
        later_position = next_position + programs
        while position < total:
            source, destination, size, way, left_out = locate(
                address, block_stride, left, unit_and_kind, source_block, destination_block, mover_place, LANES
            )
            words = tl.where(way == PLAIN, size // 16 * 2, 0)  # an even number, as the compiler can see
            lane = tl.arange(0, LANES)
            from_ = tl.multiple_of((source & -16).to(tl.pointer_type(tl.uint64)), 16) + lane
            to = tl.multiple_of((destination & -16).to(tl.pointer_type(tl.uint64)), 16) + lane
            # Past the first cache, where the records and the tables stay.
            word = tl.load(from_, mask=lane < words, cache_modifier=".cg")
            source_block, destination_block = look_up_blocks(
                next_table, next_unit_and_kind, next_place, next_columns, table_stride, next_position < total
            )
            later_mover = tl.where(later_position < total, later_position // tiles_each, next_mover)
            later_number = tl.where(later_position < total, later_position - later_mover * tiles_each, 0)
            later_place, later_columns = next_place, next_columns
            if later_mover != next_mover:
                later_place, later_columns = _numbers(moves & (rank == later_mover), place, columns)
            later_tile = tiles + later_number.to(tl.int64) * RECORD_FIELDS
            later_address, later_block_stride, later_table, later_left, later_unit_and_kind = look_up_tile(later_tile)
            tl.store(to, word, mask=lane < words)
            if way != PLAIN:
                copy_otherwise(records, tile, source, destination, size, way, left_out, LANES)
            position, next_position = next_position, later_position
            if later_position < total:
                later_position = 3 * programs + tl.atomic_add(counters + CLAIMED, 1, sem="relaxed")
            mover_place = next_place
            tile, address, block_stride = next_tile, next_address, next_block_stride
            left, unit_and_kind = next_left, next_unit_and_kind
            next_place, next_columns, next_mover = later_place, later_columns, later_mover
            next_tile, next_address, next_block_stride = later_tile, later_address, later_block_stride
            next_table, next_left, next_unit_and_kind = later_table, later_left, later_unit_and_kind
        # The last program that has nothing more to claim sets the counters to 0 for the next launch.
        if total > 2 * programs:
            tl.debug_barrier()
            if tl.atomic_add(counters + DONE, 1, sem="acq_rel") == programs - 1:
                tl.store(counters + CLAIMED, 0)
                tl.store(counters + DONE, 0)


@triton.jit
def _numbers(chosen, place, columns):
    """The numbers of the one chosen lane, for all lanes: the others add 0."""
    return tl.sum(tl.where(chosen, place, 0), 0), tl.sum(tl.where(chosen, columns, 0), 0)
