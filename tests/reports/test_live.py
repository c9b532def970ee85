"""The live view: what it says at any width, and that lines stay whole above it in a terminal."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.campaign.stats import Stats
from harness.reports.live import LOADING, LiveView, clock, packed, parts_of, rate_in_words, seconds_left
from tests.reports.many_findings import line
from tests.reports.progress import found, stats
from tests.reports.terminals import Seen, in_terminal

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-m", "tests.reports.many_findings"]


def drawn(width: int, **changes: Any) -> list[str]:
    """The lines of the view without its spinner."""
    return [text.plain for text in packed(list(parts_of(stats(**changes))), width)]


def test_one_line_where_there_is_room() -> None:
    assert drawn(200) == [
        "judging   3,012 cases: 3,000 judged, 12 skipped   95.9 a second   180 of 301 regimes   "
        "2 findings in 5 cases   0:31, 0:28 left"
    ]


def test_several_lines_where_there_is_not() -> None:
    assert drawn(80) == [
        "judging   3,012 cases: 3,000 judged, 12 skipped   95.9 a second",
        "  180 of 301 regimes   2 findings in 5 cases   0:31, 0:28 left",
    ]
    assert drawn(30) == [
        "judging",
        "  3,012 cases: 3,000 judged, …",
        "  95.9 a second",
        "  180 of 301 regimes",
        "  2 findings in 5 cases",
        "  0:31, 0:28 left",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"limit_seconds": None, "limit_cases": 60000}, ["3,012 of 60,000 cases: 3,000 judged", "0:31, 9:54 left"]),
        ({"skipped": 0, "violations": 0, "findings": []}, ["   3,012 cases judged   ", "   0 findings   "]),
        (
            {"judged": 1, "skipped": 0, "violations": 1, "findings": [found(1)]},
            ["1 case judged", "1 finding in 1 case "],
        ),
        ({"noun": "sequence", "regimes": 0}, ["3,012 sequences: ", "2 findings in 5 sequences"]),
        ({"phase": "sorting out", "seconds": 4000.0}, ["sorting out   3,012 cases", "   1:06:40"]),
        ({"harness_failures": 2, "workers_lost": 1}, ["   2 harness failures   1 lost worker   "]),
    ],
)
def test_what_it_says(changes: Mapping[str, Any], words: list[str]) -> None:
    (text,) = drawn(300, **changes)
    assert [word for word in words if word not in text] == []
    assert ("regimes" in text) == bool(changes.get("regimes", 1))


def test_there_is_no_rate_where_nothing_was_judged() -> None:
    assert "second" not in drawn(300, judged=0, in_this_part=0, skipped=0)[0]
    assert "second" not in drawn(300, phase="sorting out")[0]


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({}, 28.6),
        ({"seconds": 61.0}, 0.0),
        ({"limit_seconds": None, "limit_cases": 3112, "per_second": 50.0}, 2.0),
        ({"limit_seconds": None, "limit_cases": 3000}, 0.0),
        ({"limit_seconds": None, "limit_cases": 3112, "per_second": 0.0}, None),
        ({"phase": "sorting out"}, None),
    ],
)
def test_the_time_that_is_left(changes: Mapping[str, Any], left: float | None) -> None:
    assert seconds_left(stats(**changes)) == (None if left is None else pytest.approx(left))


def test_numbers_in_words() -> None:
    assert [clock(seconds) for seconds in (0.0, 7.9, 754.0, 3723.0)] == ["0:00", "0:07", "12:34", "1:02:03"]
    assert [rate_in_words(rate) for rate in (0.5, 12.345, 987.6, 12345.0)] == ["0.50", "12.3", "988", "12,345"]


def test_statistics_are_taken_four_times_a_second() -> None:
    times, taken = [0.0], []

    def take() -> Stats:
        taken.append(times[0])
        return stats()

    console = Console(file=io.StringIO(), width=80, get_time=lambda: times[0])
    view = LiveView(console)
    view.follow(take)
    for _ in range(100):
        console.render_lines(view)
        times[0] += 0.05
    assert len(taken) <= 21
    view.follow(take)
    console.render_lines(view)
    assert taken[-1] == times[0], "another campaign is looked at at once"


@pytest.mark.parametrize("width", [20, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, soft_wrap=True)
    view = LiveView(console)
    view.say("compiling \x1b[2J" + "a long name " * 30)
    for _ in range(2):
        lines = console.render_lines(view, pad=False)
        texts = ["".join(segment.text for segment in line) for line in lines]
        assert max(map(len, texts)) <= width
        assert not any("\x1b" in text for text in texts)
        view.follow(stats)
    assert "judging" in texts[0]


def terminal(*arguments: object, **more: Any) -> Seen:
    environment = {"PYTHONPATH": str(ROOT), **more.pop("environment", {})}
    return in_terminal([*PROGRAM, *map(str, arguments)], environment=environment, **more)


def shown(number: int) -> str:
    return "note " + line(number).replace("\x1b", "?")


def wrapped(text: str, width: int) -> list[str]:
    """A line as a terminal of that width wraps it."""
    return [text[at : at + width].rstrip() for at in range(0, len(text), width)]


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}], ids=["colour", "no-colour"])
def test_no_line_of_a_finding_is_lost_or_torn(width: int, environment: Mapping[str, str]) -> None:
    looks: list[list[str]] = []
    seen = terminal("terminal", 400, 0.6, width=width, environment=environment, looks=looks)
    expected = ["note loading", "a campaign"]
    for number in range(400):
        expected += wrapped(shown(number), width)
        if number % 50 == 0:
            expected.append(f"harness: said after {number}")
    assert [text for text in seen.lines if text] == [text for text in expected if text]
    assert (seen.status, seen.cursor) == (0, True)
    assert any("judging" in text for look in looks for text in look), "the view was there"
    coloured = bool(re.search(rb"\x1b\[[0-9;]*3[0-7]m", seen.written))
    assert coloured == (not environment)


@pytest.mark.parametrize(
    ("report", "environment"),
    [("plain", {}), ("plain-verbose", {}), ("terminal", {"TERM": "dumb"}), ("json", {})],
)
def test_only_lines_that_stay(report: str, environment: Mapping[str, str]) -> None:
    seen = terminal(report, 3, 0.3, environment=environment)
    assert b"judging" not in seen.written
    assert not re.search(rb"\x1b\[(\?|[0-9]*[A-HJK])", seen.written), "no moving, erasing or hiding"
    assert seen.status == 0
    if report != "json":
        assert seen.lines[:5] == ["note loading", "a campaign", shown(0), "harness: said after 0", shown(1)]


def test_nothing_is_drawn_into_a_file_whatever_asks_for_colour() -> None:
    ended = subprocess.run(
        [*PROGRAM, "terminal", "2", "0.3"],
        env={"PYTHONPATH": str(ROOT), "FORCE_COLOR": "1", "TTY_INTERACTIVE": "1", "TERM": "xterm"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "judging" not in ended.stdout
    assert "\x1b[?25l" not in ended.stdout
    assert ended.stderr == "harness: said after 0\n"


@pytest.mark.parametrize("text", [LOADING, "judging"])
def test_ctrl_c_leaves_a_clean_terminal(text: str) -> None:
    arguments = ("terminal", 60, 60.0) if text == "judging" else ("terminal", 0, 60.0)
    looked = "judging" if text == "judging" else "a campaign"
    seen = terminal(*arguments, interrupt=lambda screen: looked in screen)
    assert (seen.status, seen.cursor) == (130, True)
    assert seen.lines[-1] == "interrupted"
    assert not any("judging" in line or "left" in line for line in seen.lines)
    assert seen.written.rstrip().endswith(b"interrupted"), "nothing is drawn afterwards"


COMMAND = [sys.executable, "-P", "-c", "from harness.cli.main import main; main()"]


@pytest.mark.long
def test_ctrl_c_ends_a_campaign_with_its_summary_and_a_clean_terminal(tmp_path: Path, executor_name: str) -> None:
    arguments = ["run", "-t", "builtin+wrong-group", "-e", executor_name, "--budget", "5m", "--scale", "small"]
    looks: list[list[str]] = []
    seen = in_terminal(
        [*COMMAND, *arguments, "--out", str(tmp_path / "out")],
        environment={"PYTHONPATH": str(ROOT)},
        interrupt=lambda screen: "1 finding in" in screen or "2 findings in" in screen,
        looks=looks,
    )
    assert (seen.status, seen.cursor) == (130, True)
    text = "\n".join(seen.lines)
    assert re.search(r"^found \w+", text, re.MULTILINE), text
    assert "interrupted: findings in" in text, text
    assert not any(re.search(r"^. judging|\d left$", line) for line in seen.lines), "nothing is left of the view"
    assert any(line.endswith(" left") for look in looks for line in look)


@pytest.mark.long
def test_plain_lines_are_asked_for(tmp_path: Path, executor_name: str) -> None:
    arguments = ["run", "-t", "builtin", "-e", executor_name, "--cases", "1", "--plain", "--scale", "small"]
    seen = in_terminal(
        [*COMMAND, *arguments, "--out", str(tmp_path / "out")], environment={"PYTHONPATH": str(ROOT)}, width=200
    )
    assert seen.lines[0].startswith("builtin on ")
    assert not re.search(rb"\x1b\[(\?|[0-9]*[A-HJK])", seen.written)
