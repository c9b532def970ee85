"""Precopy moves running states into their requests' new blocks before a step (docs/domain.md, section 4)."""

# A kernel's parameters have Triton's types, which Python's type checkers do not know.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from harness.kernels.fused.moves import carry_out, counters_of

_POINTERS = ["source_columns", "destination_columns", "biases", "mapping", "counters"]
_NUMBERS = ["num_requests", "table_stride", "tiles_each"]


@triton.jit(do_not_specialize=[*_POINTERS, *_NUMBERS, "records", "tiles"])
def precopy_kernel(
    source_columns,  # int32*: column of the state so far, negative if there is none
    destination_columns,  # int32*: column of the running state from now on
    biases,  # int32*: accepted tokens past the first one
    mapping,  # batch row -> slot, negative to skip the row; None if not HAS_MAPPING
    counters,  # int32*: COUNTERS for each vector of ROWS requests, 0 before and after the launch
    records,  # int64*: one record per state
    tiles,  # int64*: one record per tile of a request
    num_requests: tl.int32,
    table_stride: tl.int64,  # elements between two rows of a block table
    tiles_each: tl.int32,  # tiles of a request
    HAS_MAPPING: tl.constexpr,
    ROWS: tl.constexpr,
    MANY_ROWS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Decide for all requests, ROWS at a time, and move the states of those whose column changes.

    The grid is any number of programs; all decide, and they share the copies. More than ROWS requests are first checked
    in larger vectors: in most steps none of them moves.
    """
    moving = num_requests
    if num_requests > ROWS:
        moving = 0
        for first in range(0, num_requests, MANY_ROWS):
            row = first + tl.arange(0, MANY_ROWS)
            slot, moves, source, destination = _columns(
                source_columns, destination_columns, mapping, row, num_requests, HAS_MAPPING
            )
            moving += tl.sum(moves.to(tl.int32), 0)
    if moving > 0:
        for first in range(0, num_requests, ROWS):
            row = first + tl.arange(0, ROWS)
            slot, moves, source, destination = _columns(
                source_columns, destination_columns, mapping, row, num_requests, HAS_MAPPING
            )
            if tl.sum(moves.to(tl.int32), 0) > 0:
                bias = tl.load(biases + slot, mask=moves, other=0)
                shared = counters_of(counters, first // ROWS)
                carry_out(
                    moves, slot, source, destination, bias, records, tiles, shared, tiles_each, table_stride, LANES
                )


@triton.jit
def _columns(source_columns, destination_columns, mapping, row, num_requests, HAS_MAPPING: tl.constexpr):
    """For each row its slot, whether it moves, and from which column to which."""
    inside = row < num_requests
    slot = row
    if HAS_MAPPING:
        slot = tl.load(mapping + row, mask=inside, other=-1).to(tl.int32)
        inside = slot >= 0
    source = tl.load(source_columns + slot, mask=inside, other=-1)
    destination = tl.load(destination_columns + slot, mask=inside, other=-1)
    return slot, inside & (source >= 0) & (source != destination), source, destination
