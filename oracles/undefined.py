"""A trace of undefined bytes: where they may lie after an operation, and where they must not.

Undefined bytes move along with the copies that an operation must make; everything else that it writes is defined. A
kernel that leaves an undefined byte anywhere else has read what it must not read, even if those bytes happened to be
right.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.memory import Image
from harness.oracles.expected import Expected


def trace(before: Image, shadow: Image, expected: Expected) -> Image:
    """The shadow after an operation that does what is expected, on memory that held `before`, with shadow `shadow`."""
    after = shadow.copy()
    after.data[before.data != expected.image.data] = 0
    for start, size in expected.defined:
        after.view(start, size)[:] = 0
    for copy in expected.copies:
        after.rows(copy.destination, *copy.shape)[:] = shadow.rows(copy.source, *copy.shape)
    return after


def find_undefined(traced: Image, found: Image) -> Iterator[tuple[int, int]]:
    """Yield `(offset, size)` of each run of bytes that are undefined in `found` and defined in `traced`."""
    return traced.runs(found.data > traced.data)
