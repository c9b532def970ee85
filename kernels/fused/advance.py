"""Advance moves requests to the column of their next running state (docs/domain.md, section 4)."""

# A kernel's parameters have Triton's types, which Python's type checkers do not know.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["num_requests", "block_size"])
def advance_kernel(
    mapping,  # batch row -> slot; no row is skipped
    query_start,  # int32*: by batch row, one more entry than rows
    computed,  # int32*: tokens before the step
    state_column,  # int32*: column of the running state, negative if there is none; updated
    accepted,  # int32*: counts of the previous step; 1 where the running state changes its column
    source_column,  # int32*: result, where precopy finds the state
    bias,  # int32*: result, how many tokens past the first one it is
    num_requests: tl.int32,
    block_size: tl.int32,  # tokens
    ROWS: tl.constexpr,
):
    """Decide for ROWS requests at once. The grid is (ceil(requests / ROWS),).

    Only a request's own lane reads and writes its counts, so they can be updated in place.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < num_requests
    slot = tl.load(mapping + row, mask=inside, other=0)
    column = tl.load(state_column + slot, mask=inside, other=0)
    count = tl.load(accepted + slot, mask=inside, other=0)
    tl.store(source_column + slot, column, mask=inside)
    tl.store(bias + slot, tl.maximum(count, 1) - 1, mask=inside)
    first = tl.load(query_start + row, mask=inside, other=0)
    past = tl.load(query_start + row + 1, mask=inside, other=1)
    tokens = tl.load(computed + slot, mask=inside, other=0) + (past - first)
    # The column of the last token: tokens is at least 1.
    moved = (tokens - 1) // block_size
    tl.store(state_column + slot, moved, mask=inside)
    tl.store(accepted + slot, 1, mask=inside & (column >= 0) & (column != moved))
