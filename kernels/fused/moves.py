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
    TILE_KIND,
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
        mover = -1
        mover_place = tl.zeros((), tl.int64)
        mover_columns = tl.zeros((), tl.int64)
        index = tl.program_id(0)
        of = index // tiles_each
        tile = tiles + (index - of * tiles_each) * RECORD_FIELDS
        address = tl.load(tile + TILE_ADDRESS)
        block_stride = tl.load(tile + TILE_BLOCK_STRIDE)
        table = tl.load(tile + TILE_TABLE)
        left = tl.load(tile + TILE_LEFT)
        unit = tl.load(tile + TILE_UNIT)
        kind = tl.load(tile + TILE_KIND)
        while index < moving * tiles_each:
            if of != mover:
                mover = of
                # All lanes but one add 0.
                chosen = moves & (rank == of)
                mover_place = tl.sum(tl.where(chosen, place, 0), 0)
                mover_columns = tl.sum(tl.where(chosen, columns, 0), 0)
            # What the next tile is arrives while this one is copied.
            index += tl.num_programs(0)
            next_of = index // tiles_each
            next_tile = tiles + (index - next_of * tiles_each) * RECORD_FIELDS
            next_address = tl.load(next_tile + TILE_ADDRESS)
            next_block_stride = tl.load(next_tile + TILE_BLOCK_STRIDE)
            next_table = tl.load(next_tile + TILE_TABLE)
            next_left = tl.load(next_tile + TILE_LEFT)
            next_unit = tl.load(next_tile + TILE_UNIT)
            next_kind = tl.load(next_tile + TILE_KIND)
            copy_tile(
                records,
                address,
                block_stride,
                table,
                left,
                unit,
                kind,
                tile,
                (mover_place >> 32).to(tl.int32),
                table_stride,
                (mover_columns >> 32).to(tl.int32),
                (mover_columns & 0x7FFFFFFF).to(tl.int32),
                (mover_place & 0x7FFFFFFF).to(tl.int32),
                LANES,
            )
            of, tile = next_of, next_tile
            address, block_stride, table = next_address, next_block_stride, next_table
            left, unit, kind = next_left, next_unit, next_kind
            # Warps that keep together read and write a few pages of memory at a time: faster than each by itself.
            tl.debug_barrier()
