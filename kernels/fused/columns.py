"""Columns are what the host remembers of each request: the block-table column of its running state.

A request that has finished, was preempted or starts again has none: an old one may lie outside the blocks that the
request has by now (docs/domain.md, section 7).
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping

FRESH = -1
"""Column of a request that has no state."""


def forget(columns: MutableMapping[str, int], gone: Iterable[str]) -> None:
    """Drop the columns of requests by name."""
    for name in gone:
        columns.pop(name, None)


def advance(
    columns: MutableMapping[str, int], name: str, computed: int, scheduled: int, block_size: int
) -> tuple[int, int]:
    """Give a request the column of its next running state; the column its state is in so far (or FRESH), and the new
    one."""
    source = columns.get(name)
    if source is None:
        source = (computed - 1) // block_size if computed else FRESH
    columns[name] = (computed + scheduled - 1) // block_size
    return source, columns[name]
