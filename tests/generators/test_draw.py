"""Draws stay within bounds, favour boundaries, and raise an error when there is nothing to draw."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.generators.draw import RandomDraw


def test_integer_covers_its_bounds() -> None:
    draw = RandomDraw("integer")
    assert {draw.integer(-1, 2) for _ in range(200)} == {-1, 0, 1, 2}


def test_known_sequence() -> None:
    """Seeds in files and reports must have the same meaning for ever."""
    draw = RandomDraw("1/case/0")
    assert [draw.integer(0, 999) for _ in range(4)] == [149, 692, 798, 300]


def test_boundary_favours_ends_and_interesting_values() -> None:
    draw = RandomDraw("boundary")
    counts = Counter(draw.boundary(0, 1000, (512, 5000)) for _ in range(2000))
    assert all(0 <= value <= 1000 for value in counts)
    assert sum(counts[value] for value in (0, 1, 512, 999, 1000)) > 1300
    assert len(counts) > 200  # the middle is drawn too


def test_weighted_follows_its_weights() -> None:
    draw = RandomDraw("weighted")
    counts = Counter(draw.weighted((("a", 8), ("b", 1), ("c", 0))) for _ in range(900))
    assert counts["c"] == 0
    assert counts["a"] > 5 * counts["b"] > 0


def test_permutation_and_sample() -> None:
    draw = RandomDraw("sample")
    assert sorted(draw.permutation("harness")) == sorted("harness")
    assert len({tuple(draw.permutation((1, 2, 3))) for _ in range(100)}) == 6
    assert len(set(draw.sample(range(100), 7))) == 7


def test_nothing_to_draw() -> None:
    draw = RandomDraw("nothing")
    with pytest.raises(ValueError, match="no integer from 3 to 2"):
        draw.integer(3, 2)
    with pytest.raises(ValueError, match="no integer"):
        draw.choice(())
    with pytest.raises(ValueError, match="cannot take 3 of 2"):
        draw.sample((1, 2), 3)
