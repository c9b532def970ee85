"""Comparing two reports: what the second measured slower than the first, beyond the spread of either."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

from harness.bench.report import Report, Row


class RowChange(msgspec.Struct, frozen=True, kw_only=True):
    """One target in one row of both reports. `ratio` is new time over old time."""

    row: Row
    target: str
    old: float
    new: float
    ratio: float
    slower: bool


class ReportComparison(msgspec.Struct, frozen=True, kw_only=True):
    """All changes, the worst first; `only_old` and `only_new` count rows that only one report has. `mean` is the
    geometric mean of the ratios, None if there is nothing to compare."""

    changes: Sequence[RowChange]
    only_old: int
    only_new: int
    mean: float | None


def compare(old: Report, new: Report, threshold: float) -> ReportComparison:
    """Compare what both measured. A time is slower if it is longer by `threshold` (0.05: five per cent) and by more
    than the spread of both."""
    before = {row.key: row for row in old.rows}
    changes = []
    ratios = []
    shared = 0
    for row in new.rows:
        earlier = before.get(row.key)
        if earlier is None:
            continue
        shared += 1
        for target, sample in row.times.items():
            known = earlier.times.get(target)
            if target == "copy" or known is None:
                continue
            ratio = sample.microseconds / known.microseconds
            ratios.append(ratio)
            slower = ratio > 1 + max(threshold, known.spread + sample.spread)
            changes.append(
                RowChange(
                    row=row,
                    target=target,
                    old=known.microseconds,
                    new=sample.microseconds,
                    ratio=round(ratio, 4),
                    slower=slower,
                )
            )
    changes.sort(key=lambda change: -change.ratio)
    return ReportComparison(
        changes=changes,
        only_old=len(old.rows) - shared,
        only_new=len(new.rows) - shared,
        mean=round(statistics.geometric_mean(ratios), 4) if ratios else None,
    )
