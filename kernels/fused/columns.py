"""Columns: the host remembers the block-table column of each request's running state.

A request that has finished, was preempted or starts again has none: its old column may lie outside the blocks that the
request has now (docs/domain.md, section 7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.kernels.host_buffer import HostBuffer

FRESH = -1
"""Column of a request that has no state."""


def forget(columns: MutableMapping[str, int], gone: Iterable[str]) -> None:
    """Drop the columns of requests by name."""
    for name in gone:
        columns.pop(name, None)


def advance(
    columns: MutableMapping[str, int], name: str, computed: int, scheduled: int, block_size: int
) -> tuple[int, int]:
    """Give a request the column of its next running state. Returns the column of its state so far (or FRESH), and the
    new column."""
    source = columns.get(name)
    if source is None:
        source = (computed - 1) // block_size if computed else FRESH
    columns[name] = (computed + scheduled - 1) // block_size
    return source, columns[name]


def stage_columns(columns: Mapping[str, int], names: Sequence[str], buffer: HostBuffer) -> None:
    """Stage the columns of a batch: FRESH where none is remembered and in all entries past the batch."""
    buffer.np[:] = FRESH
    for row, name in enumerate(names):
        buffer.np[row] = columns.get(name, FRESH)
    buffer.copy_to_gpu()


def remember_decodes(
    columns: MutableMapping[str, int], steps: Mapping[str, tuple[int, int]], num_spec: int, block_size: int
) -> None:
    """After a step, with (computed, scheduled) tokens for each request: remember the column of the last token of every
    whole decode, and forget the others. Does nothing without speculative tokens."""
    if num_spec == 0:
        return
    for name, (computed, scheduled) in steps.items():
        if scheduled == 1 + num_spec:
            columns[name] = (computed + scheduled - 1) // block_size
        else:
            columns.pop(name, None)
