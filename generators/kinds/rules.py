"""Rules hold row by row for every operation that a scheduler can have asked for (docs/domain.md, section 6).

Each kind says which rules its rows break; this file has what several kinds share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from harness.case import SKIP_ROW, Case, Operation, Row

NULL_BLOCK = 0

RowT = TypeVar("RowT", bound=Row)
RowT_co = TypeVar("RowT_co", bound=Row, covariant=True)


class Batch(Protocol[RowT_co]):
    """An operation, reduced to its rows."""

    @property
    def rows(self) -> Sequence[RowT_co]: ...


Broken = Callable[[Case, Batch[RowT]], Iterator[str]]


def no_rule(case: Case, operation: Operation) -> Iterator[str]:
    """For kinds that a scheduler may request with any numbers."""
    return iter(())


def each_row(broken: Callable[[Case, RowT], str | None]) -> Broken[RowT]:
    """Judges each row separately: `broken(case, row)` is the rule that a row breaks, None if it breaks none."""

    def of_operation(case: Case, operation: Batch[RowT]) -> Iterator[str]:
        for i, row in enumerate(operation.rows):
            text = None if row.slot == SKIP_ROW else broken(case, row)
            if text:
                yield f"row {i}: {text}"

    return of_operation


def each_running_row(broken: Callable[[Case, RowT], str | None], column: Callable[[RowT, int], int]) -> Broken[RowT]:
    """Like each_row, for operations that write into the block that a request runs in, which lies in `column(row,
    block_size)` of its table row. A written block belongs to one request: no two rows run in the same block.
    """
    alone = each_row(broken)

    def of_operation(case: Case, operation: Batch[RowT]) -> Iterator[str]:
        yield from alone(case, operation)
        for group, table in enumerate(case.contents.tables):
            owner: dict[int, int] = {}
            for i, row in enumerate(operation.rows):
                cells = table[row.slot] if SKIP_ROW != row.slot < len(table) else ()
                at = column(row, case.layout.block_size)
                if at >= len(cells):
                    continue
                block = cells[at]
                if block != NULL_BLOCK and owner.setdefault(block, i) != i:
                    yield f"rows {owner[block]} and {i} both run in block {block} of group {group}"

    return of_operation


def missing_blocks(case: Case, slot: int, columns: list[int]) -> str | None:
    """Cells that a moving row uses hold blocks of the row's group, and distinct columns hold distinct blocks."""
    for group, table in enumerate(case.contents.tables):
        cells = table[slot] if slot < len(table) else ()
        blocks = []
        for column in dict.fromkeys(columns):
            if column >= len(cells):
                return f"column {column} of group {group} was never allocated"
            blocks.append(cells[column])
            if cells[column] == NULL_BLOCK or case.contents.owners[cells[column]] != group:
                return f"column {column} of group {group} holds no block of that group"
        if len(set(blocks)) != len(blocks):
            return f"two of the columns {columns} of group {group} hold the same block"
    return None


def impossible_accepted(case: Case, accepted: int) -> str | None:
    """The rule that an accepted count breaks: at least 1 (the sampled token), at most 1 + all drafts."""
    if 1 <= accepted <= case.layout.num_spec + 1:
        return None
    return f"accepted {accepted} but the model makes {case.layout.num_spec} drafts"
