"""Moves are what a step has to copy: the requests that move their states, shared out to all programs of a launch.

Every program has decided for all requests, a lane for each. So it knows without asking any other which of them move,
and which tiles are its own: tile `i` of the whole step belongs to program `i` modulo the number of programs.
"""

# A kernel's parameters have Triton's types, which Python's type checkers do not know.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from harness.kernels.fused.copy import copy_tile
from harness.kernels.fused.record import (
    RECORD_FIELDS,
    TILE_ADDRESS,
    TILE_BLOCK_STRIDE,
    TILE_LEFT,
    TILE_TABLE,
    TILE_UNIT,
)


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
        mover = tl.program_id(0) // tiles_each
        number = tl.program_id(0) - mover * tiles_each
        known = -1
        mover_place = tl.zeros((), tl.int64)
        mover_columns = tl.zeros((), tl.int64)
        tile = tiles + number.to(tl.int64) * RECORD_FIELDS
        address, block_stride, table, left, unit_and_kind = _record(tile)
        while mover < moving:
            if mover != known:
                # All lanes but one add 0: its numbers are handed to all.
                chosen = moves & (rank == mover)
                mover_place = tl.sum(tl.where(chosen, place, 0), 0)
                mover_columns = tl.sum(tl.where(chosen, columns, 0), 0)
                known = mover
            number += tl.num_programs(0)
            if number >= tiles_each:
                mover += number // tiles_each
                number = number % tiles_each
            # What the next tile is arrives while this one is copied.
            next_tile = tiles + number.to(tl.int64) * RECORD_FIELDS
            next_address, next_block_stride, next_table, next_left, next_unit_and_kind = _record(next_tile)
            copy_tile(
                records,
                tile,
                address,
                block_stride,
                table,
                left,
                unit_and_kind,
                mover_place,
                mover_columns,
                table_stride,
                LANES,
            )
            tile, address, block_stride, table = next_tile, next_address, next_block_stride, next_table
            left, unit_and_kind = next_left, next_unit_and_kind
            # Warps that keep together read and write a few pages of memory at a time: faster than each by itself.
            tl.debug_barrier()


@triton.jit
def _record(tile):
    """What is needed of a tile's record wherever it goes."""
    return (
        tl.load(tile + TILE_ADDRESS),
        tl.load(tile + TILE_BLOCK_STRIDE),
        tl.load(tile + TILE_TABLE),
        tl.load(tile + TILE_LEFT),
        tl.load(tile + TILE_UNIT),
    )
