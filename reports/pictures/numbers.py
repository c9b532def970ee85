"""Numbers that are wrong, such as accepted counts, as a panel: read from the sentences that evidence has of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.reports.pictures.picture import Cell, Lane, Panel

MOST_NUMBERS = 6

NUMBER = re.compile(r"(?P<what>[^:;,]+?)(?: was (?P<was>-?\d+),|:) expected (?P<due>-?\d+), found (?P<found>-?\d+)")


def numbers(sentences: Sequence[str]) -> Panel | None:
    """A panel of the first numbers that the sentences begin with; None if none does."""
    found = [match for match in map(NUMBER.match, dict.fromkeys(sentences)) if match is not None][:MOST_NUMBERS]
    if not found:
        return None
    lanes = [
        Lane("expected", [Cell(one["due"]) for one in found]),
        Lane("found", [Cell(one["found"], "wrong") for one in found]),
    ]
    if any(one["was"] for one in found):
        lanes.insert(0, Lane("before", [Cell(one["was"] or "") for one in found]))
    return Panel("Numbers", [one["what"] for one in found], lanes)
