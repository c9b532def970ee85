"""Precopy moves running states into their requests' new blocks before a step (docs/domain.md, section 4)."""

# A kernel's parameters have Triton's types, which Python's type checkers do not know.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from harness.kernels.fused.copy import move_state
from harness.kernels.fused.record import RECORD_FIELDS


@triton.jit(do_not_specialize=["table_stride"])
def precopy_kernel(
    source_columns,  # int32*: column of the state so far, negative if there is none
    destination_columns,  # int32*: column of the running state from now on
    biases,  # int32*: accepted tokens past the first one
    mapping,  # batch row -> slot, negative to skip the row; None if not HAS_MAPPING
    records,  # int64*: one record per state
    table_stride: tl.int64,
    HAS_MAPPING: tl.constexpr,
    TILES: tl.constexpr,
    LANES: tl.constexpr,
):
    """Decide for one request and move one of its states. The grid is (requests, states, TILES)."""
    tile = tl.program_id(2)
    slot = tl.program_id(0)
    if HAS_MAPPING:
        slot = tl.load(mapping + slot).to(tl.int32)
    if slot >= 0:
        source_column = tl.load(source_columns + slot)
        destination_column = tl.load(destination_columns + slot)
        if (source_column >= 0) & (source_column != destination_column):
            bias = tl.load(biases + slot)
            record = records + tl.program_id(1) * RECORD_FIELDS
            move_state(record, slot, table_stride, source_column, destination_column, bias, tile, TILES, LANES)
