"""An image is the content of an arena: the bytes a case covers, by arena offset.

A small arena is one segment. Where huge block strides leave gaps of gigabytes, only the bytes around each block are
segments, so that the size of an image is what it holds, not what it spans. All bytes are in one array, segment after
segment, so that copying and comparing take one step for any number of segments.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


class Image:
    """Segments of bytes in ascending order, none touching the next. `data` are their bytes, one after the other."""

    def __init__(self, segments: Sequence[tuple[int, Bytes]]) -> None:
        spans = [(start, len(data)) for start, data in segments]
        parts = [data for _, data in segments]
        joined = np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint8)
        self._hold(_Segments(spans), joined)

    @classmethod
    def of(cls, spans: Sequence[tuple[int, int]], data: Bytes) -> Image:
        """An image whose segments are `spans` (offset, size), and whose bytes are `data` itself, not a copy."""
        return cls._over(_Segments(spans), data)

    @classmethod
    def _over(cls, layout: _Segments, data: Bytes) -> Image:
        image = cls.__new__(cls)
        image._hold(layout, data)
        return image

    def _hold(self, layout: _Segments, data: Bytes) -> None:
        self._layout = layout
        self.data = data

    @property
    def segments(self) -> list[tuple[int, Bytes]]:
        """Offset and bytes of each segment, the latter writable in place."""
        layout, data = self._layout, self.data
        return [
            (start, data[place : place + size])
            for start, size, place in zip(layout.starts, layout.sizes, layout.places, strict=True)
        ]

    def copy(self) -> Image:
        return Image._over(self._layout, self.data.copy())

    def like(self, data: Bytes) -> Image:
        """An image of the same segments that holds `data`."""
        return Image._over(self._layout, data)

    def view(self, offset: int, size: int) -> Bytes:
        """The bytes `[offset, offset + size)`, writable in place. Raises IndexError outside the segments, or if `size`
        is negative."""
        layout = self._layout
        i = bisect_right(layout.starts, offset) - 1
        if i >= 0 and size >= 0:
            inside = offset - layout.starts[i]
            if inside + size <= layout.sizes[i]:
                first = layout.places[i] + inside
                return self.data[first : first + size]
        raise IndexError(f"bytes {offset}..{offset + size} are not part of this image")

    def rows(self, offset: int, count: int, size: int, stride: int) -> Bytes:
        """`count` runs of `size` bytes, `stride` bytes from one to the next, as rows of a table that is writable in
        place. Raises IndexError outside the segments."""
        whole = self.view(offset, (count - 1) * stride + size)
        return np.ndarray((count, size), np.uint8, whole, 0, (stride, 1))

    def cell(self, offset: int) -> int:
        """The int32 at `offset`."""
        return int.from_bytes(self.view(offset, 4).tobytes(), "little", signed=True)

    def differences(self, other: Image) -> Iterator[tuple[int, int]]:
        """Yield `(offset, size)` of each run of bytes in which two images of the same segments differ."""
        if np.array_equal(self.data, other.data):
            return iter(())
        return self.runs(self.data != other.data)

    def runs(self, chosen: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
        """Yield `(offset, size)` of each run of bytes for which `chosen` is true; it has an entry for each byte."""
        (where,) = np.nonzero(chosen)
        if not len(where):
            return iter(())
        offsets = where + self._layout.shifts(where)
        (ends,) = np.nonzero(np.diff(offsets) > 1)  # segments do not touch: no run continues in the next one
        firsts = offsets[np.append(0, ends + 1)]
        lasts = offsets[np.append(ends, len(offsets) - 1)]
        return zip(firsts.tolist(), (lasts - firsts + 1).tolist(), strict=True)


class _Segments:
    """Where segments lie: `starts` in the arena, `places` in the array that holds their bytes."""

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None:
        self.starts: list[int] = []
        self.sizes: list[int] = []
        self.places: list[int] = []
        place = 0
        for start, size in spans:
            self.starts.append(start)
            self.sizes.append(size)
            self.places.append(place)
            place += size

    def shifts(self, where: NDArray[np.int64]) -> NDArray[np.int64] | int:
        """For each index of the array, what to add to get an arena offset."""
        if len(self.starts) == 1:
            return self.starts[0]
        distances = np.array(self.starts, dtype=np.int64) - np.array(self.places, dtype=np.int64)
        numbers: NDArray[np.int64] = np.searchsorted(self.places, where, side="right") - 1
        return distances[numbers]
