"""Sizes on a command line."""

from __future__ import annotations

import pytest

from harness.cli.options import parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2 * 10**9),
        ("2G", 2 * 10**9),
        ("1.5GiB", 3 << 29),
        ("500 mb", 500 * 10**6),
        ("1kB", 1000),
        ("1TiB", 1 << 40),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size
