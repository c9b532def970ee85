"""Kernels that do one thing each with a number that may be uninitialised."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def copy(source, target, n, LANES: tl.constexpr):
    lane = tl.arange(0, LANES)
    tl.store(target + lane, tl.load(source + lane, mask=lane < n), mask=lane < n)


@triton.jit
def copy_apart(source, target, n, LANES: tl.constexpr):
    """Every second element, lane by lane."""
    lane = 2 * tl.arange(0, LANES)
    tl.store(target + lane, tl.load(source + lane, mask=lane < n), mask=lane < n)


@triton.jit
def add(source, target):
    tl.store(target, tl.load(source) + tl.load(source + 1))


@triton.jit
def address(source, target):
    """The store's address."""
    tl.store(target + tl.load(source), 1)


@triton.jit
def addresses(source, target, LANES: tl.constexpr):
    """Addresses of a tensor of stores."""
    lane = tl.arange(0, LANES)
    tl.store(target + tl.load(source + lane), lane)


@triton.jit
def mask(source, target, LANES: tl.constexpr):
    lane = tl.arange(0, LANES)
    tl.store(target + lane, lane, mask=tl.load(source + lane) > 0)


@triton.jit
def branch(source, target):
    if tl.load(source) > 0:
        tl.store(target, 1)


@triton.jit
def bound(source, target):
    for i in range(0, tl.load(source)):
        tl.store(target + i, 1)


@triton.jit
def until(source, target):
    left = tl.load(source)
    while left > 0:
        tl.store(target, left)
        left -= 1


@triton.jit
def choice(source, target):
    """The second number of the source counts only if the first is 0."""
    tl.store(target, tl.where(tl.load(source) == 0, tl.load(source + 1), 5))


@triton.jit
def ruled_out(source, target, n, LANES: tl.constexpr):
    """Values past n decide nothing."""
    lane = tl.arange(0, LANES)
    value = tl.load(source + lane)
    tl.store(target + lane, lane, mask=(lane < n) & (value > 0))
    tl.store(target + LANES + lane, lane, mask=(lane < n) | (value > 0))


@triton.jit
def carried(source, target, n):
    """Through a loop and an if, as a scalar."""
    value = tl.load(source)
    for i in range(0, n):
        if i > 0:
            value = tl.load(source + i)
    tl.store(target, value)


@triton.jit
def carried_tensor(source, target, n, LANES: tl.constexpr):
    lane = tl.arange(0, LANES)
    value = lane
    for i in range(0, n):
        value = tl.load(source + i * LANES + lane)
    tl.store(target + lane, value)
