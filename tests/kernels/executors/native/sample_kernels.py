"""Small kernels for the tests of executors. Loaded while an executor replaces `triton.jit`, or interpreted."""

# Triton reads the branches as they are written.
# ruff: noqa: RET505, SIM108

import triton
import triton.language as tl


@triton.jit
def binary(x, y, out, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    mask = lanes < n
    a = tl.load(x + lanes, mask=mask, other=1)
    b = tl.load(y + lanes, mask=mask, other=1)
    tl.store(out + lanes, combined(a, b, OP), mask=mask)


@triton.jit
def every_operation(x, y, out, n, BLOCK: tl.constexpr):
    """All operations on tensors, the `n` results of each after those of the previous one."""
    lanes = tl.arange(0, BLOCK)
    mask = lanes < n
    store_results(out + lanes, n, tl.load(x + lanes, mask=mask), tl.load(y + lanes, mask=mask), mask)


@triton.jit
def every_scalar_operation(x, y, out, n):
    """The same, one program for each pair of operands."""
    i = tl.program_id(0)
    store_results(out + i, n, tl.load(x + i), tl.load(y + i), i < n)


@triton.jit
def store_results(out, n, a, b, mask):
    tl.store(out, combined(a, b, "add"), mask=mask)
    tl.store(out + n, combined(a, b, "sub"), mask=mask)
    tl.store(out + 2 * n, combined(a, b, "mul"), mask=mask)
    tl.store(out + 3 * n, combined(a, b, "div"), mask=mask)
    tl.store(out + 4 * n, combined(a, b, "rem"), mask=mask)
    tl.store(out + 5 * n, combined(a, b, "and"), mask=mask)
    tl.store(out + 6 * n, combined(a, b, "or"), mask=mask)
    tl.store(out + 7 * n, combined(a, b, "xor"), mask=mask)
    tl.store(out + 8 * n, combined(a, b, "shl"), mask=mask)
    tl.store(out + 9 * n, combined(a, b, "shr"), mask=mask)
    tl.store(out + 10 * n, combined(a, b, "min"), mask=mask)
    tl.store(out + 11 * n, combined(a, b, "max"), mask=mask)
    tl.store(out + 12 * n, combined(a, b, "lt"), mask=mask)
    tl.store(out + 13 * n, combined(a, b, "ge"), mask=mask)
    tl.store(out + 14 * n, combined(a, b, "where"), mask=mask)


@triton.jit
def combined(a, b, OP: tl.constexpr):
    if OP == "add":
        return a + b
    elif OP == "sub":
        return a - b
    elif OP == "mul":
        return a * b
    elif OP == "div":
        return a // b
    elif OP == "rem":
        return a % b
    elif OP == "and":
        return a & b
    elif OP == "or":
        return a | b
    elif OP == "xor":
        return a ^ b
    elif OP == "shl":
        return a << b
    elif OP == "shr":
        return a >> b
    elif OP == "min":
        return tl.minimum(a, b)
    elif OP == "max":
        return tl.maximum(a, b)
    elif OP == "lt":
        return (a < b).to(tl.int32)
    elif OP == "ge":
        return (a >= b).to(tl.int32)
    elif OP == "where":
        return tl.where(a != b, a, b + 1)
    else:
        return tl.abs(a) + tl.cdiv(b, 3)


@triton.jit
def widen(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    mask = lanes < n
    tl.store(out + lanes, tl.load(x + lanes, mask=mask).to(out.dtype.element_ty), mask=mask)


@triton.jit
def copy_masked(source, target, n, OTHER: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if OTHER is None:
        data = tl.load(source + lanes, mask=lanes < n)
    else:
        data = tl.load(source + lanes, mask=lanes < n, other=OTHER)
    tl.store(target + lanes, data)


@triton.jit
def copy_bytes(addresses, size, BLOCK: tl.constexpr):
    """Copy `size` bytes between two addresses that are stored in memory."""
    source = tl.load(addresses).to(tl.pointer_type(tl.uint8))
    target = tl.load(addresses + 1).to(tl.pointer_type(tl.uint8))
    lanes = tl.arange(0, BLOCK)
    for start in range(0, size, BLOCK):
        mask = start + lanes < size
        data = tl.load(source + start + lanes, mask=mask)
        tl.debug_barrier()
        tl.store(target + start + lanes, data, mask=mask)


@triton.jit
def copy_words(addresses, count, BLOCK: tl.constexpr):
    """Copy `count` 8-byte words between two addresses that are stored in memory."""
    source = tl.load(addresses).to(tl.pointer_type(tl.uint64))
    target = tl.load(addresses + 1).to(tl.pointer_type(tl.uint64))
    lanes = tl.arange(0, BLOCK)
    for start in range(0, count, BLOCK):
        mask = start + lanes < count
        tl.store(target + start + lanes, tl.load(source + start + lanes, mask=mask), mask=mask)


@triton.jit
def window(x, out, start, n, BLOCK: tl.constexpr):
    """Consecutive addresses under a mask whose offsets may wrap around."""
    lanes = tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, mask=start + lanes < n, other=-1))


@triton.jit
def copy_unequal(x, y, out, n, BLOCK: tl.constexpr):
    """Consecutive addresses under a mask that depends on data."""
    lanes = tl.arange(0, BLOCK)
    a = tl.load(x + lanes, mask=n > lanes, other=3)
    b = tl.load(y + lanes)
    tl.store(out + lanes, a, mask=a != b)


@triton.jit
def block_copy(base, stride: tl.int64, source_block, target_block, BLOCK: tl.constexpr):
    """Move one block of a strided buffer; the addresses need 64 bits."""
    lanes = tl.arange(0, BLOCK)
    source = base + source_block.to(tl.int64) * stride
    target = base + target_block.to(tl.int64) * stride
    tl.store(target + lanes, tl.load(source + lanes))


@triton.jit
def wait_for(flag, out):
    """Does not end before `flag` is set."""
    seen = tl.load(flag)
    while seen == 0:
        seen = tl.load(flag)
    tl.store(out, seen)


@triton.jit
def collatz(starts, steps, n):
    """Steps of the 3n + 1 walk: a loop whose length depends on data, and an early return."""
    i = tl.program_id(0)
    if i >= n:
        return
    value = tl.load(starts + i)
    if value <= 0:
        tl.store(steps + i, -1)
        return
    count = 0
    while value != 1:
        if value % 2 == 0:
            value = value // 2
        else:
            value = 3 * value + 1
        count += 1
    tl.store(steps + i, count)


@triton.jit
def nested_loops(out, rows, columns):
    """Sums over a triangle, with the loop's index in use after an inner loop."""
    total = tl.program_id(0) * 0
    for row in range(0, rows):
        inner = row * 0
        for column in range(row, columns, 2):
            inner += column
        total = total * 3 + inner
    tl.store(out, total)


@triton.jit
def swap_tensors(x, y, times, BLOCK: tl.constexpr):
    """Two tensors that swap in every round, and one that reads the other's lanes transposed."""
    lanes = tl.arange(0, BLOCK)
    a = tl.load(x + lanes)
    b = tl.load(y + lanes)
    for _ in range(times):
        a, b = b + 1, tl.trans(a.reshape(2, BLOCK // 2)).reshape(BLOCK)
    tl.store(x + lanes, a)
    tl.store(y + lanes, b)


@triton.jit
def choose(x, y, out, flag, BLOCK: tl.constexpr):
    """Tensors and scalars that result from an if."""
    lanes = tl.arange(0, BLOCK)
    a = tl.load(x + lanes)
    if flag > 0:
        a = a * 2
        k = flag + 5
    elif flag < 0:
        a = tl.load(y + lanes)
        k = -flag
    else:
        k = 7
    tl.store(out + lanes, a + k)


@triton.jit
def while_tensor(x, limit, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    a = tl.load(x + lanes)
    i = 1
    while i < limit:
        a = a + i
        i = i * 2
    tl.store(x + lanes, a + i)


@triton.jit
def gather(table, rows, out, row_stride: tl.int64, n, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A two-dimensional gather with broadcast masks, stored in three dimensions."""
    r = tl.arange(0, BLOCK_R)
    c = tl.arange(0, BLOCK_C)
    chosen = tl.load(rows + r, mask=r < n, other=0)
    mask = (r < n)[:, None] & (c < 3)[None, :]
    values = tl.load(table + chosen[:, None] * row_stride + c[None, :], mask=mask, other=-1)
    tl.store(out + r[:, None, None] * BLOCK_C + c[None, :, None], values[:, :, None])


@triton.jit
def program_numbers(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    linear = x + tl.num_programs(0) * (y + tl.num_programs(1) * z)
    tl.store(out + linear, x + 100 * y + 10000 * z + 1000000 * tl.num_programs(2))


@triton.jit
def take_ticket(counter, out):
    """Not atomic on purpose: the value that a program gets says when it ran."""
    ticket = tl.load(counter)
    tl.store(counter, ticket + 1)
    tl.store(out + tl.program_id(0) + tl.num_programs(0) * tl.program_id(1), ticket)


@triton.jit
def scalar_types(out, a, b: tl.int64, c: tl.constexpr, flag, nothing=None):
    if nothing is not None:
        tl.store(out + 4, tl.load(nothing))
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, c)
    if flag:
        tl.store(out + 3, 1)


@triton.jit
def read_at(source, offset, out, OTHER: tl.constexpr):
    """One scalar load, possibly out of bounds, and a store of the result."""
    if OTHER is None:
        value = tl.load(source + offset)
    else:
        value = tl.load(source + offset, mask=offset != 12345, other=OTHER)
    tl.store(out, value)


@triton.jit
def write_at(target, offset):
    store_one(target, offset)


@triton.jit
def store_one(target, offset):
    lanes = tl.arange(0, 4)
    tl.store(target + offset + lanes, lanes + 1)


@triton.jit
def total(x, out, BLOCK: tl.constexpr):
    """A reduction, which the native executor does not support yet."""
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, BLOCK))))


@triton.jit
def deep_sum(x, out, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    """An unrolled chain of tensor operations, far longer than Python's recursion limit."""
    lanes = tl.arange(0, BLOCK)
    value = tl.load(x + lanes)
    for i in tl.static_range(ROUNDS):
        value = (value ^ (lanes + i)) + value
    tl.store(out + lanes, value)


@triton.jit
def cached_store(x, out, BLOCK: tl.constexpr):
    """Hints about caches, which every executor on the CPU ignores."""
    lanes = tl.arange(0, BLOCK)
    value = tl.load(x + lanes, volatile=True)
    tl.store(out + lanes, value, cache_modifier=".cg", eviction_policy="evict_first")


@triton.jit
def fold(x, out, n, BLOCK: tl.constexpr):
    """Sums, the largest number, and running sums from both ends."""
    lanes = tl.arange(0, BLOCK)
    numbers = tl.load(x + lanes, mask=lanes < n, other=0)
    tl.store(out, tl.sum(numbers, 0))
    tl.store(out + 1, tl.max(numbers, 0))
    tl.store(out + 2, tl.sum(tl.where(numbers > 3, numbers, 0).to(tl.int64), 0).to(tl.int32))
    tl.store(out + 3 + lanes, tl.cumsum(numbers, 0), mask=lanes < n)
    tl.store(out + 3 + BLOCK + lanes, tl.cumsum(numbers, 0, reverse=True), mask=lanes < n)


@triton.jit
def claim(counter, out):
    """Each program takes a different number; the last one leaves 0 behind."""
    number = tl.atomic_add(counter, 1)
    tl.store(out + number, tl.program_id(0))
    if number == tl.num_programs(0) - 1:
        tl.atomic_xchg(counter, 0)


@triton.jit
def alignment(address, out, PROMISED: tl.constexpr):
    """Load a word from an address that the kernel promises to be a multiple of something."""
    place = tl.multiple_of(tl.load(address).to(tl.pointer_type(tl.int32)), PROMISED)
    tl.store(out, tl.load(place))
