"""Accepted counts after sampling: each request's own number, or one for all (docs/domain.md, section 7)."""

# A kernel's parameters have Triton's types, which Python's type checkers do not know.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["number", "num_requests"])
def set_accepted_kernel(
    mapping,  # batch row -> slot, negative to skip the row
    sampled,  # int32*: tokens by batch row; None if not HAS_SAMPLED
    number: tl.int32,  # tokens of every row otherwise
    accepted,  # int32*: counts by slot
    num_requests: tl.int32,
    HAS_SAMPLED: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Set ROWS counts. The grid is (ceil(requests / ROWS),). A step that sampled nothing counts as one token."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < num_requests
    slot = tl.load(mapping + row, mask=inside, other=-1)
    count = tl.load(sampled + row, mask=inside, other=0) if HAS_SAMPLED else number
    tl.store(accepted + slot, tl.maximum(count, 1), mask=slot >= 0)
