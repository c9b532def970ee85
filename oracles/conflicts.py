"""A conflict: of two programs of one launch, one writes a byte that the other reads or writes.

The byte's value afterwards depends on timing, so nothing is promised (docs/domain.md, section 3).
"""

from __future__ import annotations

from harness.case import InvalidCase
from harness.oracles.copies import StateCopy


def refuse_conflicts(copies: list[StateCopy]) -> None:
    """Raise InvalidCase if a program of the launch writes a byte that another program reads or writes.

    The source and destination of one copy may overlap; the gaps between DS rows count as part of them.
    """
    spans = [(copy.destination, copy.destination + copy.span, i, True) for i, copy in enumerate(copies)]
    spans += [(copy.source, copy.source + copy.span, i, False) for i, copy in enumerate(copies)]
    spans.sort()
    # Sweep from low to high; keep the two furthest ends by different copies, for writes and for reads.
    furthest_write = furthest_read = (-1, -1)
    second_write = second_read = (-1, -1)
    for start, end, i, is_write in spans:
        for far, rival in ((furthest_write, second_write), *(((furthest_read, second_read),) if is_write else ())):
            reach, by = far if far[1] != i else rival
            if by != -1 and reach > start:
                rows = sorted({copies[by].row, copies[i].row})
                raise InvalidCase(
                    f"batch rows {' and '.join(map(str, rows))}: one copy writes bytes that another one uses"
                )
        if is_write:
            furthest_write, second_write = _push(furthest_write, second_write, (end, i))
        else:
            furthest_read, second_read = _push(furthest_read, second_read, (end, i))


def _push(
    first: tuple[int, int], second: tuple[int, int], new: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Keep the furthest end, and the furthest end of any other copy."""
    if new[1] == first[1]:
        return (max(first, new), second)
    if new[0] > first[0]:
        return (new, first)
    return (first, max(second, new))
