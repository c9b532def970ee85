"""Images hold the bytes of segments far apart, and find the runs in which two of them differ."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.memory import Image

FAR = 2**41


def image() -> Image:
    return Image([(10, np.arange(10, dtype=np.uint8)), (FAR, np.arange(100, 120, dtype=np.uint8))])


def test_views_are_windows_on_the_bytes() -> None:
    made = image()
    assert made.view(12, 3).tolist() == [2, 3, 4]
    assert made.view(FAR + 19, 1).tolist() == [119]
    made.view(FAR, 2)[:] = 7
    assert made.view(FAR, 3).tolist() == [7, 7, 102]


@pytest.mark.parametrize(
    ("offset", "size"), [(9, 1), (9, 5), (15, 6), (20, 1), (FAR - 1, 2), (FAR + 20, 1), (0, 1), (13, -3)]
)
def test_bytes_outside_the_segments_are_refused(offset: int, size: int) -> None:
    with pytest.raises(IndexError):
        image().view(offset, size)


def test_copies_share_nothing() -> None:
    made = image()
    other = made.copy()
    other.view(10, 1)[:] = 99
    assert made.view(10, 1).tolist() == [0]
    assert list(made.differences(other)) == [(10, 1)]


def test_a_cell_is_a_signed_little_endian_int32() -> None:
    made = Image([(0, np.array([254, 255, 255, 255, 1, 2, 0, 0], dtype=np.uint8))])
    assert (made.cell(0), made.cell(4)) == (-2, 513)


def test_equal_images_have_no_differences() -> None:
    assert list(image().differences(image())) == []


def test_runs_end_at_equal_bytes_and_at_segments() -> None:
    made, other = image(), image()
    for offset in (10, 11, 13, 18, 19, FAR, FAR + 2, FAR + 3, FAR + 19):
        other.view(offset, 1)[:] ^= 0x80
    assert list(made.differences(other)) == [(10, 2), (13, 1), (18, 2), (FAR, 1), (FAR + 2, 2), (FAR + 19, 1)]


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_differences_are_the_bytes_that_differ(one: bytes, two: bytes) -> None:
    size = min(len(one), len(two))
    images = [Image([(5, np.frombuffer(text[:size], dtype=np.uint8))]) for text in (one, two)]
    runs = list(images[0].differences(images[1]))
    named = [offset for start, length in runs for offset in range(start, start + length)]
    assert named == [5 + i for i in range(size) if one[i] != two[i]]
    assert all(start + length < following for (start, length), (following, _) in pairwise(runs))
