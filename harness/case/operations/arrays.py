"""An array is an argument of an operation: integers by request slot or by batch row.

Entries that the operation does not name hold stale but plausible numbers of requests that are not in the batch. A
kernel that used them would move something, and the oracle would see it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from harness.case.layout import Layout
from harness.case.operations.rows import SKIP_ROW


class Array(NamedTuple):
    """`values[i]` is the entry `entries[i]`; the other entries hold numbers of the range `stale`, both ends included.

    A `mapping` has the target's own integer type, and its entries that are not given say "skip"; all others are int32.
    `kept_as` is the name under which a V2 runner keeps the array from step to step; None for one made for each step.
    `written`: whether the operation may write to it; all others are read-only.
    """

    name: str
    by: Literal["slot", "batch"]
    length: int
    entries: Sequence[int]
    values: Sequence[int]
    stale: tuple[int, int] = (0, 0)
    mapping: bool = False
    kept_as: str | None = None
    written: bool = False


def by_slot(
    layout: Layout,
    name: str,
    slots: Sequence[int],
    values: Sequence[int],
    kept_as: str | None = None,
    *,
    written: bool = False,
) -> Array:
    """An array with an entry for every request slot."""
    stale = stale_range(layout, name)
    return Array(name, "slot", layout.table_rows, slots, values, stale, kept_as=kept_as, written=written)


def by_batch_row(layout: Layout, name: str, values: Sequence[int]) -> Array:
    """An array exactly as long as the batch: a read past its end reads the guard."""
    return Array(name, "batch", max(len(values), 1), range(len(values)), values, stale_range(layout, name))


def mapping(slots: Sequence[int]) -> Array:
    """From batch row to request slot. An empty batch still has a pointer: what it points at says "skip"."""
    return Array("mapping", "batch", max(len(slots), 1), range(len(slots)), slots, (SKIP_ROW, SKIP_ROW), mapping=True)


def _columns(layout: Layout) -> tuple[int, int]:
    return 0, max(layout.table_columns - layout.num_spec - 1, 1) - 1


def _tokens(layout: Layout) -> tuple[int, int]:
    least = layout.num_spec + 1
    return least, max(least, max(layout.table_columns - layout.num_spec - 1, 1) * layout.block_size)


def _drafts(layout: Layout) -> tuple[int, int]:
    return 0, layout.num_spec


_STALE: dict[str, Callable[[Layout], tuple[int, int]]] = {
    "accepted": lambda layout: (1, layout.num_spec + 1),
    "state_column": _columns,
    "scheduled": lambda layout: (layout.num_spec + 1, layout.num_spec + 1),
    "computed": _tokens,
    "draft": _drafts,
    "new_computed": _tokens,
    "destination_column": _columns,
    "source_column": _columns,
    "bias": _drafts,
    "query_start": lambda layout: (0, 0),  # as long as it is used
    "length": _tokens,
    "sampled": _drafts,
}


def stale_range(layout: Layout, name: str) -> tuple[int, int]:
    """Numbers of requests that are not in this batch."""
    return _STALE[name](layout)
