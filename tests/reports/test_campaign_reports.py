"""Reports of a campaign, fed with synthetic events: what a user and a machine read."""

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
    FindingFound,
    FindingKept,
    Notice,
)
from harness.case import Case
from harness.check.outcome import Evidence, Outcome, Seconds, Signature, Verdict
from harness.kernel_cases.recipe import JudgedCase
from harness.kernel_cases.summary import CaseSummary, Finding, LineCoverage
from harness.reports.registry import reporter
from harness.repro import Origin, Repro, ShrinkRecord
from harness.subject.entry import Entry
from harness.subject.subject import Key
from tests.reports.progress import stats

SIGNATURE = Signature("precopy", "memory", "wrong-bytes", "conv", "DS")
ODD_TEXT = "expected [bold]00[/bold], found [01]"
"""Square brackets are markup to the library that prints: they must be printed unchanged."""


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
    summary: dict[str, Any] = {
        "seed": 5,
        "target": "builtin+x",
        "executor": "native",
        "engine": "random",
        "domain": "reachable",
        "cases": 1,
        "cases_judged": 1,
        "judged": {"postprocess": 0, "precopy": 1},
        "skipped": {"outside-contract": 2},
        "skips": {"advance: no advance": 1},
        "launches": 1,
        "seconds": 0.5,
        "cases_per_second": 2.0,
        "regimes": {"decode": 1, "layout-ds": 0},
        "unjudged": {},
        "kernel_lines": [LineCoverage("copy.py", "move", 4, 4, []), LineCoverage("copy.py", "shift", 3, 5, [7, 9])],
        "findings": [Finding(str(SIGNATURE), ODD_TEXT, "reachable", 3, 1, "out/small.json", {"executions": 17})],
        "exit_status": 1,
        "missing": ["regime layout-ds"],
        "lacking": {"advance": "no advance: it came with [b]later[/b]"},
        "relations": {},
        "harness_failures": 0,
        "in_this_part": 1,
        "whole_seconds": 0.6,
    }
    return [
        CampaignStarted("builtin+x on native: seed [5], 2 workers", 2, stats),
        CaseJudged("case", 3, JudgedCase(outcome), 1, 1, 0.5, 0.1, Entry(3, signature=str(SIGNATURE))),
        FindingFound("case", Key(str(SIGNATURE)), repro, Path("out/as-drawn/big.json"), 3),
        Notice("something [red]to know[/red]"),
        FindingKept("case", Key(str(SIGNATURE)), shrunk, Path("out/small.json"), 1),
        CampaignFinished(CaseSummary(**summary)),
    ]


def test_terminal(events: list[Event], capsys: pytest.CaptureFixture[str]) -> None:
    with reporter("terminal") as handle:
        for event in events:
            handle(event)
    out, err = capsys.readouterr()
    assert err == ""
    assert "\x1b" not in out
    lines = out.splitlines()
    assert lines[0] == "builtin+x on native: seed [5], 2 workers"
    assert "found precopy/memory/wrong-bytes/conv/DS, case 3" in lines
    assert f"      {ODD_TEXT}" in lines
    assert "      saved as drawn: out/as-drawn/big.json" in lines
    assert "note something [red]to know[/red]" in lines
    assert "shrunk precopy/memory/wrong-bytes/conv/DS (17 executions, 1.2 s)" in lines
    assert "1 case in 0.5 s (2 a second): judged 0 postprocess, 1 precopy; 1 launch" in lines
    assert "reached 1 of 2 regimes, 7 of 9 compiled kernel lines (--verbose names the others)" in lines
    assert "skipped 2: outside-contract" in lines
    assert "finding precopy/memory/wrong-bytes/conv/DS (reachable domain, shown by 1 case): out/small.json" in lines
    assert "missing regime layout-ds: no case" in lines
    assert "skipped advance altogether: no advance: it came with [b]later[/b]" in lines
    assert not any("nothing found" in line for line in lines)
    assert lines[-1] == "1 finding: 1 of precopy"


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, ["40 cases in 13.1 s (1.15 a second)"]),
        ({"in_this_part": 15}, ["40 cases, 15 of them in this part (13.1 s, 1.15 a second)"]),
        ({"in_this_part": 0, "seconds": 0.0, "whole_seconds": 0.4}, ["40 cases, none of them in this part"]),
        (
            {"whole_seconds": 40.0},
            ["40 cases in 13.1 s (1.15 a second)", "40.0 s with sorting findings out"],
        ),
    ],
)
def test_a_rate_is_that_of_the_part_that_took_the_time(
    events: list[Event], changes: dict[str, Any], wanted: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    last = events[-1]
    assert isinstance(last, CampaignFinished)
    assert isinstance(last.summary, CaseSummary)
    given = {"cases": 40, "in_this_part": 40, "seconds": 13.1, "whole_seconds": 14.0, "cases_per_second": 1.15}
    with reporter("terminal") as handle:
        handle(CampaignFinished(msgspec.structs.replace(last.summary, **{**given, **changes})))
    lines = capsys.readouterr().out.splitlines()
    wanted[0] += ": judged 0 postprocess, 1 precopy; 1 launch"
    assert lines[: len(wanted)] == wanted
    assert lines[len(wanted)].startswith("reached ")


def test_a_clean_run_says_so(events: list[Event], capsys: pytest.CaptureFixture[str]) -> None:
    last = events[-1]
    assert isinstance(last, CampaignFinished)
    assert isinstance(last.summary, CaseSummary)
    clean = CampaignFinished(msgspec.structs.replace(last.summary, findings=[], missing=[], exit_status=0))
    with reporter("terminal") as handle:
        for event in (events[0], clean):
            handle(event)
    assert capsys.readouterr().out.splitlines()[-1] == "nothing found in 1 case; 1 of 2 regimes not reached"


def test_what_was_met_was_not_drawn_and_what_shrank_to_another_is_named(
    events: list[Event], capsys: pytest.CaptureFixture[str]
) -> None:
    found, kept = events[2], events[4]
    assert isinstance(found, FindingFound)
    assert isinstance(kept, FindingKept)
    with reporter("terminal") as handle:
        handle(msgspec.structs.replace(found, index=None))
        handle(msgspec.structs.replace(kept, found_as=Key("precopy/memory/stray-write/conv/DS")))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(", met while shrinking another")
    assert "      saved as met: out/as-drawn/big.json" in lines
    assert (
        "shrunk precopy/memory/wrong-bytes/conv/DS (17 executions, 1.2 s), the smallest form of "
        "precopy/memory/stray-write/conv/DS" in lines
    )


def test_several_findings_may_be_one_fault(events: list[Event], capsys: pytest.CaptureFixture[str]) -> None:
    last = events[-1]
    assert isinstance(last, CampaignFinished)
    assert isinstance(last.summary, CaseSummary)
    one = last.summary.findings[0]
    signatures = ("precopy/memory/stray-write/conv/DS", "postprocess/race/between-programs/temporal/-")
    findings = [one, *(msgspec.structs.replace(one, signature=text) for text in signatures)]
    with reporter("terminal") as handle:
        handle(CampaignFinished(msgspec.structs.replace(last.summary, findings=findings)))
    answer = capsys.readouterr().out.splitlines()[-1]
    assert answer.startswith("3 findings: 2 of precopy, 1 of postprocess; several may be one fault")


def test_what_was_missed_is_printed_last(events: list[Event], capsys: pytest.CaptureFixture[str]) -> None:
    last = events[-1]
    assert isinstance(last, CampaignFinished)
    assert isinstance(last.summary, CaseSummary)
    with reporter("terminal") as handle:
        handle(CampaignFinished(msgspec.structs.replace(last.summary, findings=[], exit_status=3)))
    answer = capsys.readouterr().out.splitlines()[-1]
    size, required = answer.split(", but ")
    assert size == "nothing found in 1 case; 1 of 2 regimes not reached"
    assert required == "what is missing was not judged (status 3): a longer run may reach it"


def test_what_could_not_be_judged_is_printed_last(events: list[Event], capsys: pytest.CaptureFixture[str]) -> None:
    last = events[-1]
    assert isinstance(last, CampaignFinished)
    assert isinstance(last.summary, CaseSummary)
    failed = msgspec.structs.replace(last.summary, findings=[], exit_status=4, harness_failures=2)
    with reporter("terminal") as handle:
        handle(CampaignFinished(failed))
    assert capsys.readouterr().out.splitlines()[-1].startswith("nothing found in what could be judged; the harness")


def test_a_run_that_could_not_save_its_finding_does_not_print_nothing_found(
    events: list[Event], capsys: pytest.CaptureFixture[str]
) -> None:
    last = events[-1]
    assert isinstance(last, CampaignFinished)
    assert isinstance(last.summary, CaseSummary)
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
    assert isinstance(last.summary, CaseSummary)
    met = msgspec.structs.replace(last.summary.findings[0], cases=0)
    with reporter("terminal") as handle:
        handle(CampaignFinished(msgspec.structs.replace(last.summary, findings=[met])))
    out = capsys.readouterr().out
    assert "(reachable domain, met while shrinking another): out/small.json" in out
    assert "0 cases" not in out


def test_what_was_not_reached_is_named_on_request(events: list[Event], capsys: pytest.CaptureFixture[str]) -> None:
    last = events[-1]
    assert isinstance(last, CampaignFinished)
    assert isinstance(last.summary, CaseSummary)
    regimes = {"decode": 1, **{f"regime-{i}": 0 for i in range(30)}}
    finished = CampaignFinished(msgspec.structs.replace(last.summary, regimes=regimes))
    with reporter("terminal") as handle:
        handle(finished)
    out = capsys.readouterr().out
    assert "regime-0" not in out
    assert "copy.py" not in out
    with reporter("verbose") as handle:
        handle(finished)
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("reached 1 of 31 regimes, 7 of 9 compiled kernel lines")
    assert lines[at + 1] == f"  regimes not reached: {', '.join(f'regime-{i}' for i in range(30))}"
    assert lines[at + 2] == "  kernel move (copy.py): 4 of 4 lines ran"
    assert lines[at + 3] == "  kernel shift (copy.py): 3 of 5 lines ran; not lines 7, 9"


def test_json_is_one_object_on_standard_output(events: list[Event], capsys: pytest.CaptureFixture[str]) -> None:
    with reporter("json") as handle:
        for event in events:
            handle(event)
    out, err = capsys.readouterr()
    last = events[-1]
    assert isinstance(last, CampaignFinished)
    assert isinstance(last.summary, CaseSummary)
    assert json.loads(out) == msgspec.to_builtins(last.summary)
    assert out.count("\n") == 1
    assert err == "harness: something [red]to know[/red]\n"
