"""The two accesses of a race, and the byte between them, as a panel: read from the sentence that evidence has of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.reports.pictures.picture import Arrow, Cell, Lane, Panel, Point

MOST_RACES = 3

RACE = re.compile(
    r"race between (?P<who>[^:;]+?) at (?P<place>[^:;]+): (?P<first>program \([^;]+); (?P<second>program \([^;]+); "
)
ACCESS = re.compile(r"(?P<who>program \(.*?\), warp \d+) (?P<what>stores|loads) it (?:at|in) (?P<where>[^,]+)")


def accesses(sentences: Sequence[str]) -> Panel | None:
    """A panel of the first races among the sentences: a column for each, the byte in the middle lane, and the accesses
    above and below. None if there is none."""
    races = [found for found in map(RACE.match, sentences) if found is not None][:MOST_RACES]
    if not races:
        return None
    first, bytes_, second = list[Cell | None](), list[Cell | None](), list[Cell | None]()
    arrows = []
    for column, race in enumerate(races):
        for lane, cells in ((0, first), (2, second)):
            text = race["first" if lane == 0 else "second"]
            found = ACCESS.match(text)
            if found is None:
                cells.append(Cell(text))
                continue
            cells.append(Cell(f"{found['who']}\n{found['what']} it\n{found['where'].strip()}", note=text))
            way = (Point(lane, column), Point(1, column))
            arrows.append(Arrow("access", *(way if found["what"] == "stores" else way[::-1])))
        bytes_.append(Cell(race["place"].replace(" state ", " state\n", 1), "wrong", race["place"]))
    lanes = [Lane("one access", first), Lane("the byte", bytes_), Lane("the other", second)]
    columns = [f"race {number}" for number in range(1, len(races) + 1)] if len(races) > 1 else [""]
    return Panel("Accesses that nothing orders", columns, lanes, arrows)
