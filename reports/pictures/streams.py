"""Two streams of tokens, of a whole engine and of the same model run plainly, up to where they part: read from the
evidence, which names the first wrong output of each request (harness.end_to_end.confirming.WrongToken). What else it
says, such as the first wrong state, is under the picture."""

from __future__ import annotations

import re

from harness.reports.pictures.picture import Cell, Lane, Panel, Picture
from harness.repro import EngineRepro

MOST_OUTPUTS = 8
MOST_REQUESTS = 6

PARTS = re.compile(
    r"(?P<who>.+?), output (?P<output>\d+) \(position (?P<position>\d+)\): the engine says (?P<said>nothing|token \d+),"
    r" the same model run plainly says (?P<due>\d+)(?P<rest>.*)"
)


def streams(repro: EngineRepro) -> Picture | None:
    """The picture of an engine's finding; None if no token is wrong, as with an exception."""
    found = [match for match in map(PARTS.fullmatch, repro.evidence.details) if match is not None]
    if not found:
        return None
    others = [detail for detail in repro.evidence.details if PARTS.fullmatch(detail) is None]
    return Picture(repro.evidence.summary, [_panel(one) for one in found[:MOST_REQUESTS]], others)


def _panel(parts: re.Match[str]) -> Panel:
    output, said = int(parts["output"]), parts["said"].removeprefix("token ")
    first = max(0, output - MOST_OUTPUTS + 1)
    columns = [f"output {number}" for number in range(first, output + 1)]
    same: list[Cell | None] = [Cell("agree", "plain") for _ in columns[:-1]]
    engine = Lane("the engine", [*same, Cell(said, "wrong", parts[0])])
    plain = Lane("run plainly", [*same, Cell(parts["due"], "plain")])
    earlier = "" if not first else f"; outputs 0 to {first - 1} agree"
    return Panel(
        f"{parts['who']}, position {parts['position']}{_due(parts['rest'])}{earlier}", columns, [engine, plain]
    )


def _due(rest: str) -> str:
    """What follows the due token, which the picture has below."""
    return rest.replace(", whose logit", ": the logit of the due token", 1)
