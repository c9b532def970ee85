"""Aligned indices are the physical blocks that a step's layers read and write (docs/domain.md, section 7)."""

# A kernel's parameters have Triton's types, which Python's type checkers do not know.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["table_stride", "group_stride", "num_requests", "block_size"])
def aligned_indices_kernel(
    tables,  # int64*: address of each group's int32 table in batch order
    lengths,  # int32*: tokens of each batch row after the step
    indices,  # int32*: result, [groups, rows, columns]
    table_stride: tl.int64,  # elements between two rows of a table
    group_stride: tl.int64,  # elements of the result between two groups
    num_requests: tl.int32,
    block_size: tl.int32,  # tokens
    COLUMNS: tl.constexpr,  # of a row of the result
    LANES: tl.constexpr,  # the next power of two
    ROWS: tl.constexpr,
):
    """Look up ROWS batch rows of one group. The grid is (ceil(requests / ROWS), groups)."""
    group = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, LANES)
    inside = row < num_requests
    length = tl.load(lengths + row, mask=inside, other=1)
    # A request of no tokens starts in column 0, whichever way a division rounds.
    first = (tl.maximum(length, 1) - 1) // block_size
    table = tl.load(tables + group).to(tl.pointer_type(tl.int32))
    wanted = inside[:, None] & (column < COLUMNS)[None, :]
    cell = row.to(tl.int64)[:, None] * table_stride + first[:, None] + column[None, :]
    block = tl.load(table + cell, mask=wanted, other=0)
    place = group.to(tl.int64) * group_stride + row[:, None] * COLUMNS + column[None, :]
    tl.store(indices + place, block, mask=wanted)
