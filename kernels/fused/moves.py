"""Moves are what a step has to copy: the requests that move their states, shared out to all programs of a launch.

Every program has decided for all requests, a lane for each. So it knows without asking any other which of them move,
and which tiles are its own: tile `i` of the whole step belongs to program `i` modulo the number of programs.
"""

# A kernel's parameters have Triton's types, which Python's type checkers do not know.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from harness.kernels.fused.copy import copy_tile


@triton.jit
def carry_out(
    moves,  # lanes whose request moves
    row,  # by lane: row of the request in the block tables
    source_column,  # by lane
    destination_column,  # by lane
    bias,  # by lane
    records,  # int64*: one record per state
    tiles,  # int64*: state and tile of each tile of a request
    tiles_each,  # tiles of a request
    table_stride,
    LANES: tl.constexpr,
):
    """Copy this program's tiles of all states of the requests that move."""
    number = tl.sum(moves.to(tl.int32), 0)
    if number > 0:
        rank = tl.cumsum(moves.to(tl.int32), 0) - 1
        # None of the four is negative where a request moves.
        place = (row.to(tl.int64) << 32) | bias.to(tl.int64)
        columns = (source_column.to(tl.int64) << 32) | destination_column.to(tl.int64)
        mover = -1
        mover_place = tl.zeros((), tl.int64)
        mover_columns = tl.zeros((), tl.int64)
        for index in range(tl.program_id(0), number * tiles_each, tl.num_programs(0)):
            of = index // tiles_each
            if of != mover:
                mover = of
                # All lanes but one add 0.
                chosen = moves & (rank == of)
                mover_place = tl.sum(tl.where(chosen, place, 0), 0)
                mover_columns = tl.sum(tl.where(chosen, columns, 0), 0)
            tile = tl.load(tiles + (index - of * tiles_each))
            copy_tile(
                records,
                tile >> 32,
                (tile & 0x7FFFFFFF).to(tl.int32),
                mover_place >> 32,
                table_stride,
                (mover_columns >> 32).to(tl.int32),
                (mover_columns & 0x7FFFFFFF).to(tl.int32),
                (mover_place & 0x7FFFFFFF).to(tl.int32),
                LANES,
                128 if LANES > 128 else LANES,
            )
            # Warps that keep together read and write a few pages of memory at a time; it is faster than each by itself.
            tl.debug_barrier()
