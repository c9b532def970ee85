"""JSON lines, and other reports that follow a run."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.campaign.events import CampaignFinished, CaseJudged, Event, FindingFound, FindingKept
from harness.refusal import Refusal
from harness.registry import Registry
from harness.reports.written.json_lines import line_of
from harness.reports.written.registry import (
    OURS,
    REGISTRY,
    UnknownReport,
    WrittenReport,
    write_reports,
    written_reports,
)
from harness.subject.subject import Key
from tests.reports.test_campaign_reports import ODD_TEXT, SIGNATURE, events  # noqa: F401 - a fixture

ROOT = Path(__file__).resolve().parents[2]
Command = Callable[..., subprocess.CompletedProcess[str]]
JSONL = REGISTRY.named("jsonl")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_event_is_a_line_as_it_happens(events: list[Event], tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "deep" / "events.jsonl"
    with written_reports([(JSONL, path)]) as handle:
        for number, event in enumerate(events, 1):
            handle(event)
            assert len(lines(path)) == number, "a reader may follow it"
    written = lines(path)
    names = ["started", "judged", "found", "notice", "kept", "finished", "over"]
    assert [line["event"] for line in written] == names
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", line["at"]) for line in written)
    started, judged, found, notice, kept, finished, _ = written
    assert (started["subject"], started["seed"], started["workers"]) == ("case", 5, 2)
    assert (judged["number"], judged["count"], judged["signature"], judged["skipped"]) == (3, 1, str(SIGNATURE), None)
    assert (found["summary"], found["repro"]) == (ODD_TEXT, "out/as-drawn/big.json")
    assert notice["text"] == "something [red]to know[/red]"
    assert (kept["executions"], kept["count"], kept["found_as"]) == (17, 1, None)
    last = events[-1]
    assert isinstance(last, CampaignFinished)
    assert finished["summary"] == msgspec.to_builtins(last.summary)


def test_what_is_null(events: list[Event]) -> None:  # noqa: F811
    _, judged, found, _, kept, _ = events
    assert isinstance(judged, CaseJudged)
    assert isinstance(found, FindingFound)
    assert isinstance(kept, FindingKept)
    assert line_of(msgspec.structs.replace(found, index=None))[1]["number"] is None
    changed = msgspec.structs.replace(kept, repro=found.repro, found_as=Key("a/b/c/d/e"))
    assert line_of(changed)[1]["executions"] is None
    assert line_of(changed)[1]["found_as"] == "a/b/c/d/e"


def test_the_page_has_the_fields(events: list[Event]) -> None:  # noqa: F811
    page = (ROOT / "docs/json.md").read_text().partition("`--report jsonl=FILE`")[2]
    rows = dict(re.findall(r"^\| `([a-z ]+)` \| (.*) \|$", page, re.MULTILINE))
    assert list(rows) == ["started", "judged", "found", "kept", "notice", "finished", "over", "broken off"]
    for event in events:
        name, fields = line_of(event)
        assert {field for field in fields if f"`{field}`" not in rows[name]} == set()


def test_the_last_line_says_why_it_was_broken_off(events: list[Event], tmp_path: Path) -> None:  # noqa: F811
    def campaigns() -> None:
        with written_reports([(JSONL, tmp_path / "e")]) as handle:
            handle(events[0])
            raise Refusal("no such target: 'next'")

    with pytest.raises(Refusal):
        campaigns()
    last = lines(tmp_path / "e")[-1]
    assert (last["event"], last["why"], last["exit_status"]) == ("broken off", "no such target: 'next'", 2)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_costs_no_campaign(events: list[Event], tmp_path: Path) -> None:  # noqa: F811
    handled = []

    def campaigns() -> None:
        asked = [(JSONL, Path("/dev/full")), (REGISTRY.named("markdown"), tmp_path / "page.md")]
        with written_reports(asked) as handle:
            for event in events:
                handle(event)
                handled.append(event)

    with pytest.raises(OSError, match="No space left"):
        campaigns()
    assert len(handled) == len(events)
    assert (tmp_path / "page.md").read_text().startswith("## harness")


def test_it_cannot_be_written_later(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="--report jsonl follows a run"):
        write_reports([(JSONL, tmp_path / "e")], [])


PLUGIN = """
from contextlib import contextmanager
from harness.reports.written.registry import WrittenReport

REPORT = WrittenReport("mine", "what happened", "my_reports:follow", follows=True)


@contextmanager
def follow(path):
    names = []
    yield lambda event: names.append(type(event).__name__)
    path.write_text(" ".join(dict.fromkeys(names)))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The folder of a package with a report that follows, as an installation would leave it."""
    folder = tmp_path / "installed"
    info = folder / "my_reports-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "my_reports.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-reports\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mamba_migration_harness.reports]\nmine = my_reports:REPORT\n")
    return folder


def test_a_package_adds_a_handler(
    package: Path,
    monkeypatch: pytest.MonkeyPatch,
    events: list[Event],  # noqa: F811
    tmp_path: Path,
) -> None:
    monkeypatch.syspath_prepend(str(package))
    registry = Registry(WrittenReport, "report", "mamba_migration_harness.reports", OURS, UnknownReport)
    with written_reports([(registry.named("mine"), tmp_path / "names")]) as handle:
        for event in events:
            handle(event)
    expected = "CampaignStarted CaseJudged FindingFound Notice FindingKept CampaignFinished"
    assert (tmp_path / "names").read_text() == expected


@contextmanager
def wrong(path: Path) -> Iterator[Callable[[Event], None]]:
    def handle(event: Event) -> None:
        raise ZeroDivisionError

    yield handle


def test_a_handler_that_is_wrong_is_not_silent(events: list[Event], tmp_path: Path) -> None:  # noqa: F811
    report = WrittenReport("wrong", "-", f"{__name__}:wrong", follows=True)

    def campaigns() -> None:
        with written_reports([(report, tmp_path / "x")]) as handle:
            handle(events[0])

    with pytest.raises(ZeroDivisionError):
        campaigns()


@pytest.mark.long
def test_the_command_line_takes_both(harness: Command, package: Path, tmp_path: Path, executor_name: str) -> None:
    path = os.pathsep.join([str(ROOT), str(package)])
    asked = f"jsonl={tmp_path / 'e.jsonl'},mine={tmp_path / 'mine'}"
    arguments = ["-e", executor_name, "--ops", "precopy", "--cases", 30, "--scale", "small", "--out", tmp_path / "out"]
    done = harness("run", "-t", "builtin", *arguments, "--json", "--report", asked, PYTHONPATH=path)
    assert done.returncode in (0, 1), done.stderr
    written = lines(tmp_path / "e.jsonl")
    assert [line["event"] for line in written if line["event"] != "notice"] == [
        "started",
        *["judged"] * 30,
        "finished",
        "over",
    ]
    assert sorted(line["number"] for line in written if line["event"] == "judged") == list(range(30))
    assert written[-2]["summary"] == json.loads(done.stdout)
    assert "CaseJudged" in (tmp_path / "mine").read_text()
    later = harness("report", tmp_path / "out", "--report", f"jsonl={tmp_path / 'later'}")
    assert (later.returncode, later.stderr.count("\n")) == (2, 1)
    assert "follows a run" in later.stderr
