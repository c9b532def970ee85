"""A trace of undefined bytes: where they may lie after an operation, and where they lie without reason.

Bytes that nobody has defined move along with the copies that an operation must make, and everything else that it writes
is defined. A kernel that leaves an undefined byte anywhere else has read what it must not read, even if that held the
right bytes by chance.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.memory import Image
from harness.oracles.expected import Expected


def trace(before: Image, shadow: Image, expected: Expected) -> Image:
    """The shadow after an operation that does what is expected, on memory that held `before`, with its `shadow`."""
    after = shadow.copy()
    for (_, held), (_, holds), (_, undefined) in zip(
        before.segments, expected.image.segments, after.segments, strict=True
    ):
        if held is not holds and not np.array_equal(held, holds):
            undefined[held != holds] = 0
    for start, size in expected.defined:
        after.view(start, size)[:] = 0
    for copy in expected.copies:
        source, destination = shadow.view(copy.source, copy.span), after.view(copy.destination, copy.span)
        for run in range(copy.runs):
            first = run * copy.run_stride
            destination[first : first + copy.run_bytes] = source[first : first + copy.run_bytes]
    return after


def find_undefined(traced: Image, found: Image) -> Iterator[tuple[int, int]]:
    """Yield `(offset, size)` of each run of bytes that are undefined in `found` and defined in `traced`."""
    for (start, wanted), (_, shadow) in zip(traced.segments, found.segments, strict=True):
        wrong = shadow > wanted
        if not wrong.any():
            continue
        (where,) = np.nonzero(wrong)
        for run in np.split(where, np.nonzero(np.diff(where) > 1)[0] + 1):
            yield start + int(run[0]), len(run)
