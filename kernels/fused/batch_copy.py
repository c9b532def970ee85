"""A batch copy moves a list of contiguous pieces of memory that the host has computed."""

# A kernel's parameters have Triton's types, which Python's type checkers do not know.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def batch_copy_kernel(
    sources,  # int64*: addresses
    destinations,  # int64*: addresses; a piece may overlap its source from below
    sizes,  # int32*: bytes
    LANES: tl.constexpr,
):
    """Copy one piece. The grid is (pieces,).

    All lanes read their part of a step before any of them writes: a piece that overlaps its source is a shift to the
    left, and the next step reads further right than this one writes.
    """
    piece = tl.program_id(0)
    source = tl.load(sources + piece)
    destination = tl.load(destinations + piece)
    size = tl.load(sizes + piece)
    if ((source | destination | size.to(tl.int64)) & 3) == 0:
        _copy_steps(source, destination, size // 4, tl.uint32, LANES)
    else:
        _copy_steps(source, destination, size, tl.uint8, LANES)


@triton.jit
def _copy_steps(source, destination, count, WORD: tl.constexpr, LANES: tl.constexpr):
    for first in range(0, count, LANES):
        index = first + tl.arange(0, LANES)
        word = tl.load(source.to(tl.pointer_type(WORD)) + index, mask=index < count)
        tl.debug_barrier()
        tl.store(destination.to(tl.pointer_type(WORD)) + index, word, mask=index < count)
