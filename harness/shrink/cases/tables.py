"""Passes over block tables and the pool: only the cells and blocks in use, in the first columns."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case import FRESH, SKIP_ROW, Case, PostprocessRow, PrecopyRow, rows_of, state_extent
from harness.shrink.cases import edits
from harness.shrink.proposals import Proposal, down_to_one

FAR = 1 << 20
"""From so many bytes between two blocks on, the gap is there for the sake of large offsets."""


def smaller_tables(case: Case) -> Iterator[Proposal[Case]]:
    """Only the cells that rows can reach, and null blocks in the rows in front of them; then a table as wide as its
    longest row."""
    used = edits.used_columns(case)
    blank = edits.blank_row(case)[: max(used.values(), default=0)]

    def needed(*others: int) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """Unused rows hold `others`: cells that are not given are stale and all different."""
        return tuple(
            tuple(
                cells[: used[slot]] if slot in used else others
                for slot, cells in enumerate(table)
                if slot in used or slot < max(used, default=0)
            )
            for table in case.contents.tables
        )

    plain = needed(*blank)
    yield lambda: edits.with_contents(case, tables=plain)
    if case.contents.tables != plain:
        yield lambda: edits.with_contents(case, tables=needed())
    width = max([1, *used.values(), *(len(cells) for table in case.contents.tables for cells in table)])
    if width < case.layout.table_columns:
        yield lambda: edits.with_layout(case, table_columns=width)
    rows = max([1, *(slot + 1 for slot in used), *(len(operation.rows) for operation in case.program)])
    if rows < case.layout.table_rows:
        trimmed = tuple(table[:rows] for table in case.contents.tables)
        yield lambda: edits.with_contents(edits.with_layout(case, table_rows=rows), tables=trimmed)
    # As far as cells are given: numbers of rows that do not move can name columns far outside of any table.
    given = max((len(cells) for table in case.contents.tables for cells in table), default=0)
    for size in down_to_one(given):
        for first in range(0, given, size):
            yield lambda first=first, size=size: _blank_columns(case, first, size)  # type: ignore[misc]


def _blank_columns(case: Case, first: int, size: int) -> Case:
    """The null block in `size` columns of every row: for cells that only seem to be used."""
    blank = range(first, first + size)
    tables = tuple(
        tuple(tuple(0 if c in blank else cell for c, cell in enumerate(cells)) for cells in table)
        for table in case.contents.tables
    )
    return edits.with_contents(case, tables=tables)


def fewer_blocks(case: Case) -> Iterator[Proposal[Case]]:
    """Number the blocks in use from 1; where blocks lie far apart, widen the strides so that they still do."""
    yield lambda: edits.renumber_blocks(case)
    if any(edits.natural_gap(where, state) > FAR for where, state in case.layout.states()):
        # Where an offset wraps onto another block, and where it wraps next to one.
        for base, side in ((1 << 31, 0), (1 << 31, 1), (1 << 32, 0), (1 << 32, 1)):
            yield lambda base=base, side=side: edits.repack(  # type: ignore[misc]
                edits.renumber_blocks(case),
                lambda w, s: (
                    base + (2 * side - 1) * state_extent(s)
                    if edits.natural_gap(w, s) > FAR
                    else edits.natural_gap(w, s)
                ),
            )


def lower_columns(case: Case) -> Iterator[Proposal[Case]]:
    """Move requests to the first columns of their table rows."""
    for index, operation in enumerate(case.program):
        for at, row in enumerate(rows_of(operation)):
            if row.slot == SKIP_ROW:
                continue
            if isinstance(row, PostprocessRow):
                room = min(row.state_column, row.computed // case.layout.block_size)
            elif isinstance(row, PrecopyRow):
                room = min(row.source_column, row.destination_column) if row.source_column != FRESH else 0
            else:
                continue
            for columns in down_to_one(room):
                yield lambda i=index, at=at, c=columns: edits.shift_row(case, i, at, c)  # type: ignore[misc]


def fewer_columns(case: Case) -> Iterator[Proposal[Case]]:
    """Remove the columns that a precopy neither reads nor writes: all of a row at once, then one by one."""
    for index, operation in enumerate(case.program):
        for at, row in enumerate(rows_of(operation)):
            if not isinstance(row, PrecopyRow) or row.slot == SKIP_ROW or row.source_column == FRESH:
                continue
            first, second = sorted((row.source_column, row.destination_column))
            # Columns from the source to the one of the accepted token keep their distance.
            first = max(first, row.source_column + row.bias) if row.source_column < row.destination_column else first
            unused = [c for c in range(first + 1, second) if c != row.source_column + row.bias]
            for columns in [unused, *([c] for c in unused if len(unused) > 1)]:
                if columns:
                    yield lambda i=index, at=at, c=columns: edits.remove_columns(case, i, at, c)  # type: ignore[misc]
