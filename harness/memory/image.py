"""An image is the content of an arena: the bytes a case covers, by arena offset.

A small arena is one segment. Where huge block strides leave gaps of gigabytes, only the bytes around each block are
segments, so that an image costs what it holds and not what it spans.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


class Image:
    """Segments of bytes in ascending order, none touching the next."""

    def __init__(self, segments: Sequence[tuple[int, Bytes]]) -> None:
        self.segments = list(segments)
        self._starts = [start for start, _ in self.segments]

    def copy(self) -> Image:
        return Image([(start, data.copy()) for start, data in self.segments])

    def view(self, offset: int, size: int) -> Bytes:
        """The bytes `[offset, offset + size)`, writable in place. Raises IndexError outside the segments."""
        i = bisect_right(self._starts, offset) - 1
        if i >= 0:
            start, data = self.segments[i]
            if offset + size <= start + len(data):
                return data[offset - start : offset - start + size]
        raise IndexError(f"bytes {offset}..{offset + size} are not part of this image")

    def cell(self, offset: int) -> int:
        """The int32 at `offset`."""
        return int.from_bytes(self.view(offset, 4).tobytes(), "little", signed=True)

    def differences(self, other: Image) -> Iterator[tuple[int, int]]:
        """Yield `(offset, size)` of each run of bytes in which two images of the same segments differ."""
        for (start, mine), (_, theirs) in zip(self.segments, other.segments, strict=True):
            if np.array_equal(mine, theirs):
                continue
            (where,) = np.nonzero(mine != theirs)
            breaks = np.nonzero(np.diff(where) > 1)[0] + 1
            for run in np.split(where, breaks):
                yield start + int(run[0]), len(run)
