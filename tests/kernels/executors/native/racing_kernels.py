"""Kernels that race, and kernels that nearly do."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def shift(memory, by, n, LANES: tl.constexpr, BARRIER: tl.constexpr):
    """Move n elements to the left, LANES at a time."""
    for first in range(0, n, LANES):
        index = first + tl.arange(0, LANES)
        value = tl.load(memory + by + index, mask=index < n)
        if BARRIER:
            tl.debug_barrier()
        tl.store(memory + index, value, mask=index < n)
        if BARRIER:
            tl.debug_barrier()


@triton.jit
def count(total, out):
    """Every program reads what the first one writes."""
    value = tl.load(total)
    if tl.program_id(0) == 0:
        tl.store(total, 1)
    tl.store(out + tl.program_id(0), value)


@triton.jit
def same_store(flag):
    tl.store(flag, 5)


@triton.jit
def unused_load(memory):
    """Triton's clean-up removes the load, or the recorder leaves it out."""
    tl.load(memory + tl.program_id(0) - 1, mask=tl.program_id(0) > 0)
    tl.store(memory + tl.program_id(0), 1)


@triton.jit
def small(memory, LANES: tl.constexpr):
    """Fewer lanes than threads: every thread holds some lane, and only its owner counts."""
    index = tl.arange(0, LANES)
    value = tl.load(memory + index)
    tl.store(memory + index, value + 1)


@triton.jit
def rows_and_columns(memory, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    value = tl.load(memory + row * COLUMNS + column)
    tl.store(out + row * COLUMNS + column, value + tl.load(memory + tl.arange(0, COLUMNS))[None, :])


@triton.jit
def two_layouts(numbers, wide, LANES: tl.constexpr):
    """Values read from `numbers` are written to `wide`, which has another layout, and then changed in place."""
    index = tl.arange(0, LANES)
    value = tl.load(numbers + index)
    tl.store(wide + index, value.to(tl.int64))
    tl.store(numbers + index, value + 100)


@triton.jit
def reset(total, arrived, out, BARRIER: tl.constexpr, ORDER: tl.constexpr, LANES: tl.constexpr):
    """Every program reads all counts; the last one to arrive resets them."""
    lane = tl.arange(0, LANES)
    count = tl.load(total + lane)
    tl.store(out + tl.program_id(0) * LANES + lane, count)
    if BARRIER:
        tl.debug_barrier()
    if tl.atomic_add(arrived, 1, sem=ORDER) == tl.num_programs(0) - 1:
        tl.store(total + lane, 1)
        tl.store(arrived, 0)


@triton.jit
def parting(flag, out, AT_FIRST: tl.constexpr):
    """Only warps that read AT_FIRST, which one of them soon changes, wait for the others."""
    value = tl.load(flag)
    tl.store(flag, 1 - AT_FIRST)
    if value == AT_FIRST:
        tl.debug_barrier()
        tl.debug_barrier()
    tl.store(out, 5)


@triton.jit
def waiting_elsewhere(flag, out):
    """Warps wait at different barriers."""
    value = tl.load(flag)
    tl.store(flag, 1)
    if value == 0:
        tl.store(out, 5)
        tl.debug_barrier()
    else:
        tl.debug_barrier()
        tl.store(out + 1, 6)
        tl.debug_barrier()
    tl.store(out + 2, 7)


@triton.jit
def claiming_late(flag, counter, n):
    """Warps that come late take numbers, which the first one does not."""
    if tl.load(flag) == 1:
        number = tl.atomic_add(counter, 1)
        while number < n:
            number = tl.atomic_add(counter, 1)
    tl.store(flag, 1)
