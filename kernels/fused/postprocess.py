"""Postprocess moves accepted state to where the prefix cache expects it (docs/domain.md, section 3)."""

# A kernel's parameters have Triton's types, which Python's type checkers do not know.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from harness.kernels.fused.moves import carry_out, counters_of
from harness.kernels.fused.record import ARRIVED

_POINTERS = ["accepted", "result", "state_column", "computed", "scheduled", "draft", "mapping", "counters"]
_NUMBERS = ["num_requests", "block_size", "table_stride", "tiles_each"]


@triton.jit(do_not_specialize=[*_POINTERS, *_NUMBERS, "records", "tiles"])
def postprocess_kernel(
    accepted,  # int32*: counts before the step's reset
    result,  # int32*: counts after it; never read; None if IN_PLACE
    state_column,  # int32*: column of the running state
    computed,  # int32*: tokens before the step, or after it if IN_PLACE
    scheduled,  # int32*; None if IN_PLACE
    draft,  # int32*; None if IN_PLACE
    mapping,  # batch row -> slot, negative to skip the row; None unless IN_PLACE
    counters,  # int32*: COUNTERS for each vector of ROWS requests, 0 before and after the launch
    records,  # int64*: one record per state
    tiles,  # int64*: one record per tile of a request
    num_requests: tl.int32,
    block_size: tl.int32,  # tokens
    table_stride: tl.int64,  # elements between two rows of a block table
    tiles_each: tl.int32,  # tiles of a request
    IN_PLACE: tl.constexpr,
    ROWS: tl.constexpr,
    MANY_ROWS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Decide for all requests, ROWS at a time, and move the states of those that need it.

    The grid is any number of programs; all decide, and they share the copies. Counts go to `result` (V1), or replace
    `accepted` (V2). More than ROWS requests are first checked in larger vectors: in most steps none of them moves.
    """
    reaching = num_requests
    if num_requests > ROWS:
        reaching = 0
        for first in range(0, num_requests, MANY_ROWS):
            row = first + tl.arange(0, MANY_ROWS)
            slot, inside, count, blocks, bias = _progress(
                accepted, computed, scheduled, draft, mapping, row, num_requests, block_size, IN_PLACE
            )
            reaching += tl.sum((inside & (bias >= 0)).to(tl.int32), 0)
            if not IN_PLACE and tl.program_id(0) == 0:
                tl.store(result + slot, count, mask=inside)
    if reaching > 0:
        for first in range(0, num_requests, ROWS):
            row = first + tl.arange(0, ROWS)
            slot, inside, count, blocks, bias = _progress(
                accepted, computed, scheduled, draft, mapping, row, num_requests, block_size, IN_PLACE
            )
            reaches = inside & (bias >= 0)
            if not IN_PLACE and tl.program_id(0) == 0:
                tl.store(result + slot, count, mask=inside)
            if tl.sum(reaches.to(tl.int32), 0) > 0:
                source_column = tl.load(state_column + slot, mask=reaches, other=0)
                shared = counters_of(counters, first // ROWS)
                within_block = reaches & (source_column == blocks - 1)
                if IN_PLACE:
                    _reset(accepted, slot, within_block, shared)
                elif tl.program_id(0) == 0:
                    tl.store(result + slot, 1, mask=within_block)
                moves = reaches & ((bias > 0) | (source_column != blocks - 1))
                carry_out(
                    moves,
                    slot,
                    source_column,
                    blocks - 1,
                    bias,
                    records,
                    tiles,
                    shared,
                    tiles_each,
                    table_stride,
                    LANES,
                )


@triton.jit
def _progress(accepted, computed, scheduled, draft, mapping, row, num_requests, block_size, IN_PLACE: tl.constexpr):
    """For each row its slot, whether it takes part, its count, the whole blocks of its new length, and the bias to the
    end of the last one: negative if the step has not reached it."""
    inside = row < num_requests
    slot = row
    if IN_PLACE:
        slot = tl.load(mapping + row, mask=inside, other=-1).to(tl.int32)
        inside = slot >= 0
    count = tl.load(accepted + slot, mask=inside, other=0)
    if IN_PLACE:
        new = tl.load(computed + slot, mask=inside, other=0)
        running = new - count + 1
    else:
        running = tl.load(computed + slot, mask=inside, other=0) + tl.load(scheduled + slot, mask=inside, other=0)
        running -= tl.load(draft + slot, mask=inside, other=0)
        new = running + count - 1
    blocks = new // block_size
    return slot, inside, count, blocks, blocks * block_size - running


@triton.jit
def _reset(accepted, slot, lanes, counters, ARRIVED: tl.constexpr = ARRIVED):
    """Set the counts of `lanes` to 1, once every program has read the counts of all.

    Every program counts itself as arrived, and the last one to do so writes: no program waits.
    """
    if tl.sum(lanes.to(tl.int32), 0) > 0:
        tl.debug_barrier()
        if tl.atomic_add(counters + ARRIVED, 1, sem="acq_rel") == tl.num_programs(0) - 1:
            tl.store(accepted + slot, 1, mask=lanes)
            tl.store(counters + ARRIVED, 0)
