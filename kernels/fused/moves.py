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
        # This turn's tile, of which everything is known,
        position = tl.program_id(0)
        mover = position // tiles_each
        tile = tiles + (position - mover * tiles_each).to(tl.int64) * RECORD_FIELDS
        address, block_stride, table, left, unit_and_kind = look_up_tile(tile)
        rank = tl.cumsum(moves.to(tl.int32), 0) - 1
        total = moving * tiles_each
        programs = tl.num_programs(0)
        its_row, its_source, its_destination, its_bias = _numbers(
            moves & (rank == mover), row, source_column, destination_column, bias
        )
        source_block, destination_block = look_up_blocks(
            table, unit_and_kind, its_row, its_source, its_destination, its_bias, table_stride, position < total
        )
        # the next turn's, of which the record is known,
        next_position = position + programs
        next_mover = next_position // tiles_each
        next_tile = tiles + (next_position - next_mover * tiles_each).to(tl.int64) * RECORD_FIELDS
        next_address, next_block_stride, next_table, next_left, next_unit_and_kind = look_up_tile(next_tile)
        next_bias = its_bias
        if (next_mover != mover) & (next_position < total):
            its_row, its_source, its_destination, next_bias = _numbers(
                moves & (rank == next_mover), row, source_column, destination_column, bias
            )
        # and the one after that, of which only the number is.
        later_position = next_position + programs
        while position < total:
            source, destination, size, way, left_out = locate(
                address, block_stride, left, unit_and_kind, source_block, destination_block, its_bias, LANES
            )
            words = tl.where(way == PLAIN, size // 16 * 2, 0)  # an even number, as the compiler can see
            lane = tl.arange(0, LANES)
            from_ = tl.multiple_of((source & -16).to(tl.pointer_type(tl.uint64)), 16) + lane
            to = tl.multiple_of((destination & -16).to(tl.pointer_type(tl.uint64)), 16) + lane
            word = tl.load(from_, mask=lane < words)
            source_block, destination_block = look_up_blocks(
                *(next_table, next_unit_and_kind, its_row, its_source, its_destination, next_bias, table_stride),
                next_position < total,
            )
            later_mover = tl.where(later_position < total, later_position // tiles_each, next_mover)
            later_number = tl.where(later_position < total, later_position - later_mover * tiles_each, 0)
            later_tile = tiles + later_number.to(tl.int64) * RECORD_FIELDS
            later_address, later_block_stride, later_table, later_left, later_unit_and_kind = look_up_tile(later_tile)
            later_bias = next_bias
            if later_mover != next_mover:
                its_row, its_source, its_destination, later_bias = _numbers(
                    moves & (rank == later_mover), row, source_column, destination_column, bias
                )
            tl.store(to, word, mask=lane < words)
            if way != PLAIN:
                copy_otherwise(records, tile, source, destination, size, way, left_out, LANES)
            position, next_position = next_position, later_position
            if later_position < total:
                later_position = 3 * programs + tl.atomic_add(counters + CLAIMED, 1, sem="relaxed")
            tile, address, block_stride, its_bias = next_tile, next_address, next_block_stride, next_bias
            left, unit_and_kind = next_left, next_unit_and_kind
            next_tile, next_address, next_block_stride = later_tile, later_address, later_block_stride
            next_table, next_left, next_unit_and_kind = later_table, later_left, later_unit_and_kind
            next_bias, next_mover = later_bias, later_mover
        # The last program that has nothing more to claim sets the counters to 0 for the next launch.
        if total > 2 * programs:
            tl.debug_barrier()
            if tl.atomic_add(counters + DONE, 1, sem="acq_rel") == programs - 1:
                tl.store(counters + CLAIMED, 0)
                tl.store(counters + DONE, 0)


@triton.jit
def _numbers(chosen, row, source_column, destination_column, bias):
    """The numbers of the one chosen lane, for all lanes: the others add 0. A GPU adds 32-bit numbers in one step."""
    its_row = tl.sum(tl.where(chosen, row, 0), 0)
    its_source = tl.sum(tl.where(chosen, source_column, 0), 0)
    its_destination = tl.sum(tl.where(chosen, destination_column, 0), 0)
    return its_row, its_source, its_destination, tl.sum(tl.where(chosen, bias, 0), 0)
