"""Sizes on a command line."""

from __future__ import annotations

import pytest
import typer

from harness.cli.options import parse_memory, parse_size


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


def test_a_limit_that_nothing_can_watch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with it would be green with any target."""
    assert parse_memory("2GB") == 2 * 10**9
    monkeypatch.setattr("harness.worker.memory.resident_bytes", lambda process: 0)
    with pytest.raises(typer.BadParameter, match="needs /proc"):
        parse_memory("2GB")
