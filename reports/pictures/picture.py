"""A picture is what is drawn of a finding, and not how: panels of lanes, whose cells stand in common columns, and
arrows between cells.

Makers (`arena.py`, `races.py`, `timeline.py`, `streams.py`) make pictures from what repro files say; writers (`svg.py`,
`plain_text.py`) draw them. So a maker knows neither SVG nor widths of terminals, and a writer nothing of findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Mark = Literal["plain", "idle", "edge", "source", "destination", "wrong", "cause"]
"""What a cell is: `idle` belongs to something else, `edge` is what must not be touched (guards, padding), `source` and
`destination` are those of what has to move, `wrong` is where it went wrong, `cause` what led there."""

MARKS: dict[Mark, str] = {
    "source": "is read",
    "destination": "is to be written",
    "wrong": "wrong",
    "cause": "wrote it last",
    "idle": "of something else",
    "edge": "guard or padding",
}
"""What a legend says of each mark that needs words."""

ArrowKind = Literal["due", "found", "copy", "access"]

ARROWS: dict[ArrowKind, str] = {
    "due": "what had to move",
    "found": "where the found bytes are from",
    "copy": "what was moved or copied",
    "access": "access",
}
"""What a legend says of each kind of arrow."""


@dataclass(frozen=True)
class Cell:
    """One cell: a short text, whose lines are divided by line breaks. `note` says more about it. `tail` is the text of
    padding behind it, `tail_mark` what that is; no tail: there is none."""

    text: str
    mark: Mark = "plain"
    note: str = ""
    tail: str = ""
    tail_mark: Mark = "edge"


@dataclass(frozen=True)
class Lane:
    """A row of cells, one for each column of the panel; None: nothing is there."""

    name: str
    cells: Sequence[Cell | None]


class Point(NamedTuple):
    """A cell of a panel, by the numbers of its lane and column."""

    lane: int
    column: int


class Arrow(NamedTuple):
    """From one cell to another."""

    kind: ArrowKind
    start: Point
    end: Point
    label: str = ""


@dataclass(frozen=True)
class Panel:
    """Lanes under the headings of their columns. `narrow` are columns that need little width."""

    title: str
    columns: Sequence[str]
    lanes: Sequence[Lane]
    arrows: Sequence[Arrow] = ()
    narrow: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Picture:
    """What is drawn of one finding. `title` says it in a sentence, for those who do not see it; `captions` are lines
    under it."""

    title: str
    panels: Sequence[Panel]
    captions: Sequence[str] = ()

    @property
    def legend(self) -> tuple[list[Mark], list[ArrowKind]]:
        """The marks and the kinds of arrows that occur and need words."""
        cells = [cell for panel in self.panels for lane in panel.lanes for cell in lane.cells if cell is not None]
        marks = {cell.mark for cell in cells} | {cell.tail_mark for cell in cells if cell.tail}
        kinds = {arrow.kind for panel in self.panels for arrow in panel.arrows}
        return [mark for mark in MARKS if mark in marks], [kind for kind in ARROWS if kind in kinds]
