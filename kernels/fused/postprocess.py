"""Postprocess moves accepted state to where the prefix cache expects it (docs/domain.md, section 3)."""

# A kernel's parameters have Triton's types, which Python's type checkers do not know.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from harness.kernels.fused.copy import move_state
from harness.kernels.fused.record import RECORD_FIELDS


@triton.jit(do_not_specialize=["table_stride", "block_size"])
def postprocess_kernel(
    accepted,  # int32*: counts before the step's reset; never written
    accepted_out,  # int32*: counts after it; never read
    state_column,  # int32*: column of the running state
    computed,  # int32*: tokens before the step, or after it if COMPUTED_IS_NEW
    scheduled,  # int32*, None if COMPUTED_IS_NEW
    draft,  # int32*, None if COMPUTED_IS_NEW
    mapping,  # batch row -> slot, negative to skip the row; None if not HAS_MAPPING
    records,  # int64*: one record per state
    table_stride: tl.int64,
    block_size: tl.int32,  # tokens
    HAS_MAPPING: tl.constexpr,
    COMPUTED_IS_NEW: tl.constexpr,
    TILES: tl.constexpr,
    LANES: tl.constexpr,
):
    """Decide for one request and move one of its states. The grid is (requests, states, TILES).

    `accepted` and `accepted_out` must be different memory: programs of the other states of the request read
    the count that one of them resets.
    """
    state = tl.program_id(1)
    tile = tl.program_id(2)
    slot = tl.program_id(0)
    if HAS_MAPPING:
        slot = tl.load(mapping + slot).to(tl.int32)
    if slot >= 0:
        count = tl.load(accepted + slot)
        source_column = tl.load(state_column + slot)
        if COMPUTED_IS_NEW:
            new = tl.load(computed + slot)
            running = new - count + 1
        else:
            running = tl.load(computed + slot) + tl.load(scheduled + slot) - tl.load(draft + slot)
            new = running + count - 1
        blocks = new // block_size
        bias = blocks * block_size - running
        destination_column = blocks - 1
        within_block = (bias >= 0) & (source_column == destination_column)
        if (state == 0) & (tile == 0):
            tl.store(accepted_out + slot, tl.where(within_block, 1, count))
        if (bias >= 0) & ((bias > 0) | (source_column != destination_column)):
            record = records + state * RECORD_FIELDS
            move_state(record, slot, table_stride, source_column, destination_column, bias, tile, TILES, LANES)
