"""Pictures as plain text, for terminals of any width from 60 columns on.

Lanes are lines, cells stand below their headings, and arrows are lines of their own. A panel that is too wide is cut
into parts with some of the columns each; a cell that is too long continues on the next line.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from harness.reports.pictures.picture import ARROWS, MARKS, Arrow, Cell, Mark, Panel, Picture

SIGNS: dict[Mark, str] = {
    "plain": "",
    "idle": "",
    "edge": "",
    "source": "<",
    "destination": ">",
    "wrong": "!",
    "cause": "*",
}
"""What stands in front of a cell's text."""

MOST = 28
"""The greatest width of a column, unless there is room for all to be wider."""


def plain_text(picture: Picture, width: int) -> list[str]:
    """The lines of the picture, none of them longer than `width` (at least 60)."""
    lines: list[str] = []
    for panel in picture.panels:
        lines += ["", *_panel(panel, max(60, width))]
    for caption in picture.captions:
        lines += textwrap.wrap(caption, width, subsequent_indent="  ")
    marks, _ = picture.legend
    legend = ", ".join(f"{SIGNS[mark]} {MARKS[mark]}" for mark in marks if SIGNS[mark])
    return [*lines, *([f"({legend})"] if legend else [])]


def _panel(panel: Panel, width: int) -> Iterator[str]:
    yield from textwrap.wrap(panel.title, width, subsequent_indent="  ")
    label = min(34, max((len(line) for lane in panel.lanes for line in lane.name.split("\n")), default=0)) + 2
    most = max(MOST, (width - label) // max(1, len(panel.columns)))
    texts = [[_text(cell) for cell in lane.cells] for lane in panel.lanes]
    widths = [
        min(most, 2 + max(len(line) for text in (name, *(lane[number] for lane in texts)) for line in text.split("\n")))
        for number, name in enumerate(panel.columns)
    ]
    for part in _parts(widths, width - label):
        if any(panel.columns):
            heads = [panel.columns[number][: widths[number] - 1].ljust(widths[number]) for number in part]
            yield f"{'':{label}}{''.join(heads)}".rstrip()
        for lane, cells in zip(panel.lanes, texts, strict=True):
            yield from _lane(lane.name, label, [(cells[number], widths[number]) for number in part])
    for arrow in panel.arrows:
        text = f"{ARROWS[arrow.kind]}: {_ends(panel, arrow)}{f' ({arrow.label})' if arrow.label else ''}"
        yield from textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    ")


def _ends(panel: Panel, arrow: Arrow) -> str:
    """From where to where; what both ends have in common is said once."""
    lanes = [" ".join(panel.lanes[at.lane].name.split("\n")) for at in (arrow.start, arrow.end)]
    columns = [panel.columns[at.column] for at in (arrow.start, arrow.end)]
    if lanes[0] == lanes[1]:
        return f"{lanes[0]}, {columns[0]} -> {columns[1]}"
    if columns[0] == columns[1]:
        return f"{f'{columns[0]}, ' if columns[0] else ''}{lanes[0]} -> {lanes[1]}"
    return " -> ".join(f"{column} of {lane}" for column, lane in zip(columns, lanes, strict=True))


def _parts(widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """Numbers of columns that stand side by side."""
    part: list[int] = []
    for number, width in enumerate(widths):
        if part and sum(widths[one] for one in part) + width > room:
            yield part
            part = []
        part.append(number)
    if part:
        yield part


def _lane(name: str, label: int, cells: Sequence[tuple[str, int]]) -> Iterator[str]:
    """The lines of one lane."""
    wrapped = [[line for text in cell.split("\n") for line in textwrap.wrap(text, width - 1)] for cell, width in cells]
    names = [line for text in name.split("\n") for line in textwrap.wrap(text, max(1, label - 2))]
    for number in range(max([len(names), *(len(lines) for lines in wrapped)])):
        head = names[number] if number < len(names) else ""
        parts = [
            (lines[number] if number < len(lines) else "").ljust(width)
            for lines, (_, width) in zip(wrapped, cells, strict=True)
        ]
        yield f"{head:{label}}{''.join(parts)}".rstrip()


def _text(cell: Cell | None) -> str:
    if cell is None:
        return ""
    sign = SIGNS[cell.mark]
    own = cell.text if cell.text or cell.mark != "edge" else "####"
    text = f"{sign} {own}" if sign and own != sign else own
    return f"{text} |{cell.tail}" if cell.tail else text
