"""Reports of a campaign, fed with events that a test has made up: what a person and a machine get to read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.campaign.events import (
    CampaignFinished,
    CampaignStarted,
    CaseJudged,
    Event,
    Finding,
    FindingFound,
    FindingShrunk,
    Notice,
    Summary,
)
from harness.case import Case
from harness.check.outcome import Evidence, Outcome, Seconds, Signature, Verdict
from harness.engines.random import Recipe
from harness.reports.registry import reporter
from harness.repro import Origin, Repro, ShrinkRecord

SIGNATURE = Signature("precopy", "memory", "wrong-bytes", "conv", "DS")
ODD_TEXT = "expected [bold]00[/bold], found [01]"
"""Square brackets are markup to the library that prints: they have to come out as they went in."""


@pytest.fixture
def events(make_case: Callable[..., Case]) -> list[Event]:
    evidence = Evidence(ODD_TEXT)
    repro = Repro(
        signature=SIGNATURE,
        evidence=evidence,
        origin=Origin(target="builtin+x", executor="native", harness_version="1", generator_version=1, seed=5, index=3),
        shrink=None,
        case=make_case(),
    )
    shrunk = msgspec.structs.replace(repro, shrink=ShrinkRecord(executions=17, seconds=1.25, complete=True))
    outcome = Outcome(
        (Verdict("precopy", "fail", signature=SIGNATURE, evidence=evidence, launches=1, moves=2),), Seconds()
    )
    recipe = Recipe(seed=5, domains=("reachable",), operations=("postprocess", "precopy"), scale="full")
    summary: dict[str, Any] = {
        "seed": 5,
        "target": "builtin+x",
        "executor": "native",
        "engine": "random",
        "domain": "reachable",
        "cases": 1,
        "judged": {"postprocess": 0, "precopy": 1},
        "skipped": {"outside-contract": 2},
        "launches": 1,
        "seconds": 0.5,
        "cases_per_second": 2.0,
        "regimes": {"decode": 1, "layout-ds": 0},
        "kernel_lines": [],
        "findings": [Finding(str(SIGNATURE), ODD_TEXT, "reachable", 3, 1, "out/small.json", {"executions": 17})],
        "exit_status": 1,
        "missing": ["regime layout-ds"],
        "lacking": {"advance": "no advance: it came with [b]later[/b]"},
        "relations": {},
    }
    return [
        CampaignStarted("builtin+x", "native", recipe, 10, None, 2),
        CaseJudged(3, outcome, 1, 0.5, 0.1),
        FindingFound(SIGNATURE, repro, Path("out/as-drawn/big.json")),
        Notice("something [red]to know[/red]"),
        FindingShrunk(SIGNATURE, shrunk, Path("out/small.json")),
        CampaignFinished(Summary(**summary)),
    ]


def test_terminal(events: list[Event], capsys: pytest.CaptureFixture[str]) -> None:
    with reporter("terminal") as handle:
        for event in events:
            handle(event)
    out, err = capsys.readouterr()
    assert err == ""
    assert "\x1b" not in out
    lines = out.splitlines()
    assert lines[0] == ("builtin+x on native: seed 5, reachable domain, postprocess, precopy, 10 cases, 2 workers")
    assert "found precopy/memory/wrong-bytes/conv/DS, case 3" in lines
    assert f"      {ODD_TEXT}" in lines
    assert "      saved as drawn: out/as-drawn/big.json" in lines
    assert "note something [red]to know[/red]" in lines
    assert "shrunk precopy/memory/wrong-bytes/conv/DS (17 executions, 1.2 s)" in lines
    assert "1 case in 0.5 s (2 a second): judged 0 postprocess, 1 precopy; 1 launch" in lines
    assert "regimes reached: 1 of 2" in lines
    assert "skipped 2: outside-contract" in lines
    assert "finding precopy/memory/wrong-bytes/conv/DS (reachable domain, 1 case): out/small.json" in lines
    assert "missing regime layout-ds: no case" in lines
    assert "skipped advance altogether: no advance: it came with [b]later[/b]" in lines
    assert not any("nothing found" in line for line in lines)


def test_a_clean_run_says_so(events: list[Event], capsys: pytest.CaptureFixture[str]) -> None:
    last = events[-1]
    assert isinstance(last, CampaignFinished)
    clean = CampaignFinished(msgspec.structs.replace(last.summary, findings=[], missing=[], exit_status=0))
    with reporter("terminal") as handle:
        for event in (events[0], clean):
            handle(event)
    assert "nothing found\n" in capsys.readouterr().out


def test_a_run_that_could_not_save_its_finding_does_not_say_nothing_found(
    events: list[Event], capsys: pytest.CaptureFixture[str]
) -> None:
    last = events[-1]
    assert isinstance(last, CampaignFinished)
    failed = CampaignFinished(msgspec.structs.replace(last.summary, findings=[], missing=[], exit_status=2))
    with reporter("terminal") as handle:
        for event in (events[0], failed):
            handle(event)
    assert "nothing found" not in capsys.readouterr().out


def test_what_no_drawn_case_showed_was_not_seen_zero_times(
    events: list[Event], capsys: pytest.CaptureFixture[str]
) -> None:
    last = events[-1]
    assert isinstance(last, CampaignFinished)
    met = msgspec.structs.replace(last.summary.findings[0], cases=0)
    with reporter("terminal") as handle:
        handle(CampaignFinished(msgspec.structs.replace(last.summary, findings=[met])))
    out = capsys.readouterr().out
    assert "(reachable domain, met while shrinking another): out/small.json" in out
    assert "0 cases" not in out


@pytest.mark.parametrize(("missed", "told"), [(3, "regime-0, regime-1, regime-2"), (30, "30 others; --json counts")])
def test_a_short_run_does_not_list_all_that_it_has_not_reached(
    events: list[Event], capsys: pytest.CaptureFixture[str], missed: int, told: str
) -> None:
    last = events[-1]
    assert isinstance(last, CampaignFinished)
    regimes = {"decode": 1, **{f"regime-{i}": 0 for i in range(missed)}}
    with reporter("terminal") as handle:
        handle(CampaignFinished(msgspec.structs.replace(last.summary, regimes=regimes)))
    out = capsys.readouterr().out
    assert f"regimes reached: 1 of {missed + 1}\n  not reached: {told}" in out


def test_json_is_one_object_on_standard_output(events: list[Event], capsys: pytest.CaptureFixture[str]) -> None:
    with reporter("json") as handle:
        for event in events:
            handle(event)
    out, err = capsys.readouterr()
    last = events[-1]
    assert isinstance(last, CampaignFinished)
    assert json.loads(out) == msgspec.to_builtins(last.summary)
    assert out.count("\n") == 1
    assert err == "harness: something [red]to know[/red]\n"
