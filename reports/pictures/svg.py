"""Pictures as SVG, to stand in a page: colours are those of the page (`STYLE`), texts are escaped, nothing has an id.

Lengths are in pixels of a page that is 1,160 wide. What a mark means is never said by its colour alone: outlines differ
too, and the legend has the words.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import escape

from harness.reports.pictures.picture import ARROWS, MARKS, Arrow, Cell, Lane, Mark, Panel, Picture

WIDTH = 1160
LABEL = 150
GAP = 6
LINE = 15
LETTER = 6.7
"""The width of a letter: a little more than that of most fonts at this size."""
NARROW = 46
TAIL = 26
WIDEST = 260
GUTTER = 20
"""The room above or below a lane for arrows between its own cells."""
MOST_LINES = 5

STYLE = """
.picture { max-width: 100%; min-width: 860px; height: auto; display: block; font: 12px system-ui, sans-serif; }
.picture text { fill: var(--text); }
.picture .head, .picture .name { fill: var(--dim); }
.picture .title { font-weight: 600; }
.picture .label { fill: var(--dim); paint-order: stroke; stroke: var(--back); stroke-width: 4px; }
.picture rect { fill: var(--cell); stroke: var(--line); }
.picture .idle { fill: none; stroke-dasharray: 2 3; }
.picture .edge { fill: var(--edge); stroke: none; }
.picture .source { stroke: var(--blue); stroke-width: 2; }
.picture .destination { stroke: var(--green); stroke-width: 2; stroke-dasharray: 6 3; }
.picture .wrong { fill: var(--pink); stroke: var(--red); stroke-width: 3; }
.picture .cause { fill: var(--sand); stroke: var(--orange); stroke-width: 2; stroke-dasharray: 2 2; }
.picture path { fill: none; stroke-width: 2; stroke: var(--text); }
.picture path.due { stroke: var(--green); }
.picture path.found { stroke: var(--red); stroke-dasharray: 5 3; }
.picture path.copy { stroke: var(--blue); }
"""
"""What a page has to say of these classes; it defines the variables, for light and dark."""


def svg(picture: Picture) -> str:
    """The picture as one element. Its width is that of the page at most."""
    parts: list[str] = []
    top = 0.0
    for panel in picture.panels:
        placed = _Placed.of(panel, top)
        parts += _panel(panel, placed)
        top = placed.bottom + 14
    legend, top = _legend(picture, top)
    parts += legend
    label = escape(_safe(picture.title))
    return (
        f'<svg class="picture" role="img" aria-label="{label}" width="{WIDTH}" viewBox="0 0 {WIDTH} {top:.0f}"'
        f' xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


@dataclass(frozen=True)
class _Placed:
    """Where the columns (left, width) and lanes (top, height) of a panel are; `texts` are the lines of each cell."""

    top: float
    columns: Sequence[tuple[float, float]]
    lanes: Sequence[tuple[float, float]]
    texts: Sequence[Sequence[Sequence[str]]]
    bottom: float

    @classmethod
    def of(cls, panel: Panel, top: float) -> _Placed:
        widths = _widths(panel)
        lefts = [LABEL + sum(widths[:number]) + GAP * number for number in range(len(widths))]
        columns = list(zip(lefts, widths, strict=True))
        texts = [[_lines(cell, width) for cell, width in zip(lane.cells, widths, strict=True)] for lane in panel.lanes]
        at = top + (22 if panel.title else 0) + (18 if any(panel.columns) else 0)
        lanes = []
        for number, (lane, lines) in enumerate(zip(panel.lanes, texts, strict=True)):
            most = max([len(lane.name.split("\n")), *(len(one) for one in lines)])
            inside = {one.kind for one in panel.arrows if one.start.lane == one.end.lane == number}
            at += GUTTER if inside - {"found"} else 0
            at += LINE if _has_label_of_far(panel, number, from_above=True) else 0
            lanes.append((at, most * LINE + 9.0))
            at += lanes[-1][1] + (GUTTER if "found" in inside else 0) + _room_below(panel, number)
            at += LINE if _has_label_of_far(panel, number, from_above=False) else 0
        return cls(top, columns, lanes, texts, at)


def _room_below(panel: Panel, lane: int) -> float:
    """More room where an arrow leads to the next lane."""
    between = any({arrow.start.lane, arrow.end.lane} == {lane, lane + 1} for arrow in panel.arrows)
    return 24 if between else GAP


def _has_label_of_far(panel: Panel, lane: int, *, from_above: bool) -> bool:
    """Whether an arrow with a label ends in a lane and comes from one that is not next to it."""
    ways = [arrow.end.lane - arrow.start.lane for arrow in panel.arrows if arrow.label and arrow.end.lane == lane]
    return any(way > 1 if from_above else way < -1 for way in ways)


def _widths(panel: Panel) -> list[float]:
    """Columns share what the labels leave, in proportion to their longest words."""
    room = WIDTH - LABEL - GAP * len(panel.columns) - 30
    wide = [number for number in range(len(panel.columns)) if number not in panel.narrow]
    room -= NARROW * len(panel.narrow)
    each = max(40.0, min(WIDEST, room / max(1, len(wide))))
    return [NARROW if number in panel.narrow else each for number in range(len(panel.columns))]


def _lines(cell: Cell | None, width: float) -> list[str]:
    """The lines of a cell's text, as many as it shows."""
    if cell is None:
        return []
    letters = max(3, int((width - 10 - (TAIL if cell.tail else 0)) / LETTER))
    lines = [
        line for text in _safe(cell.text).split("\n") for line in textwrap.wrap(text, letters, break_on_hyphens=False)
    ]
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], "..."]
    return lines


def _panel(panel: Panel, placed: _Placed) -> Iterator[str]:
    if panel.title:
        yield _text(0, placed.top + 14, panel.title, "title")
    first = placed.lanes[0][0] if placed.lanes else placed.bottom
    above = GUTTER if any(_inside(panel, 0)) else 0
    for name, (left, width) in zip(panel.columns, placed.columns, strict=True):
        yield _text(left + width / 2, first - above - 6, name, "head", "middle")
    for lane, at, texts in zip(panel.lanes, placed.lanes, placed.texts, strict=True):
        yield from _lane(lane, at, placed.columns, texts)
    for arrow in panel.arrows:
        yield from _arrow(arrow, placed)


def _inside(panel: Panel, lane: int) -> Iterator[Arrow]:
    return (arrow for arrow in panel.arrows if arrow.kind != "found" and arrow.start.lane == arrow.end.lane == lane)


def _lane(
    lane: Lane, at: tuple[float, float], columns: Sequence[tuple[float, float]], texts: Sequence[Sequence[str]]
) -> Iterator[str]:
    top, height = at
    for number, line in enumerate(lane.name.split("\n")):
        yield _text(0, top + 14 + LINE * number, line, "name")
    for cell, (left, width), lines in zip(lane.cells, columns, texts, strict=True):
        if cell is None:
            continue
        own = width - (TAIL if cell.tail else 0)
        note = f"<title>{escape(_safe(cell.note))}</title>" if cell.note and cell.note != cell.text else ""
        yield f"<g>{note}{_box(cell.mark, left, top, own, height)}"
        for number, line in enumerate(lines):
            yield _text(left + 6, top + 16 + LINE * number, line)
        yield "</g>"
        if cell.tail:
            yield _box(cell.tail_mark, left + own, top, TAIL, height)
            yield _text(left + own + 3, top + 16, cell.tail, "head")


def _arrow(arrow: Arrow, placed: _Placed) -> Iterator[str]:
    (start_top, start_height), (end_top, end_height) = placed.lanes[arrow.start.lane], placed.lanes[arrow.end.lane]
    (left, width), (end_left, end_width) = placed.columns[arrow.start.column], placed.columns[arrow.end.column]
    x, end = left + width / 2, end_left + end_width / 2
    if arrow.start.lane == arrow.end.lane:
        below = arrow.kind == "found"
        y, way = (start_top + start_height, 1) if below else (start_top, -1)
        if arrow.start.column == arrow.end.column:
            x, end = x - 14, end + 14
        turn = y + way * (GUTTER - 6)
        yield _path(arrow.kind, f"M{x:.0f} {y:.0f}V{turn:.0f}H{end:.0f}V{y:.0f}", (end, y), (0, -way))
        label_at, anchor = (max(x, end) + 9, turn + (4 if below else 8)), "start"
    elif abs(arrow.start.lane - arrow.end.lane) == 1:
        down = arrow.start.lane < arrow.end.lane
        y = start_top + start_height if down else start_top
        to = end_top if down else end_top + end_height
        yield _path(arrow.kind, f"M{x:.0f} {y:.0f}L{end:.0f} {to:.0f}", (end, to), (0, 1 if down else -1))
        label_at, anchor = (max(x, end) + 6, (y + to) / 2 + 4), "start"
    else:
        x, end = left + width, end_left + end_width
        y, to, out = start_top + start_height / 2, end_top + end_height / 2, max(x, end) + 14
        yield _path(arrow.kind, f"M{x:.0f} {y:.0f}H{out:.0f}V{to:.0f}H{end:.0f}", (end, to), (-1, 0))
        label_at, anchor = (out - 4, end_top - 5 if end_top > start_top else end_top + end_height + 12), "end"
    if arrow.label:
        yield _text(*label_at, arrow.label, "label", anchor)


def _path(kind: str, way: str, tip: tuple[float, float], direction: tuple[int, int]) -> str:
    """A line and its head; `direction` is where it points, in x and y."""
    (x, y), (right, down) = tip, direction
    back, side = (-7 * right, -7 * down), (4 * down, 4 * right)
    head = "".join(
        f"M{x:.0f} {y:.0f}L{x + back[0] + sign * side[0]:.0f} {y + back[1] + sign * side[1]:.0f}" for sign in (1, -1)
    )
    return f'<path class="{kind}" d="{way}"/><path class="{kind}" style="stroke-dasharray:none" d="{head}"/>'


def _legend(picture: Picture, top: float) -> tuple[list[str], float]:
    """What marks and arrows mean, in one row."""
    marks, kinds = picture.legend
    parts, x = [], 0.0
    for mark in marks:
        parts.append(_box(mark, x + 2, top + 3, 16, 12))
        parts.append(_text(x + 24, top + 14, MARKS[mark], "head"))
        x += 40 + LETTER * len(MARKS[mark])
    for kind in kinds:
        parts.append(_path(kind, f"M{x:.0f} {top + 9:.0f}H{x + 22:.0f}", (x + 22, top + 9), (1, 0)))
        parts.append(_text(x + 28, top + 14, ARROWS[kind], "head"))
        x += 46 + LETTER * len(ARROWS[kind])
    return parts, top + (22 if parts else 0)


def _box(mark: Mark, left: float, top: float, width: float, height: float) -> str:
    return f'<rect class="{mark}" x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{height:.0f}"/>'


def _text(x: float, y: float, text: str, name: str = "", anchor: str = "") -> str:
    of = f' class="{name}"' if name else ""
    of += f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.0f}" y="{y:.0f}"{of}>{escape(_safe(text))}</text>'


def _safe(text: str) -> str:
    """Without control characters; line breaks stay."""
    return "".join(letter for letter in text if letter.isprintable() or letter == "\n")
