"""Written reports: what other programs read of a result, by their own parsers, whatever the texts contain."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from junitparser import Error, Failure, JUnitXml, Skipped

from harness.campaign.events import CampaignFinished
from harness.check.outcome import CodePlace
from harness.cli.run import parse_reports
from harness.kernel_cases.summary import CaseSummary, Finding
from harness.refusal import Refusal
from harness.reports.written.github import annotation, markdown, report_to_job, require_job
from harness.reports.written.junit import junit
from harness.reports.written.registry import REGISTRY, UnknownReport, written_reports
from harness.reports.written.result import parts_of, result_of
from harness.reports.written.sarif import sarif
from harness.subject.faults import Fault
from harness.subject.standing import Baseline, ExpiredMute, Muted, Standing, StillThere
from tests.summaries import case_summary, sequence_finding, sequence_summary

HOSTILE = "<script>alert(1)</script> ]]> & \x1b[31m ::error::\nnext | `code` %0A"


def kernel_summary(**changes: Any) -> CaseSummary:
    """A summary with two findings of one fault, and hostile texts."""
    place = CodePlace("vllm/v1/worker/mamba_utils.py", 157, "copy", "store")
    first = Finding(
        "precopy/memory/wrong-bytes/conv/SD", HOSTILE, "reachable", 3, 2, "found/one.json", None, places=[place]
    )
    second = Finding("precopy/memory/wrong-bytes/temporal/-", "other", "reachable", 5, 1, None, None, issue="F1")
    given: dict[str, Any] = {
        "target": HOSTILE,
        "judged": {"postprocess": 4, "precopy": 5, "advance": 0, "stage": 0},
        "lacking": {"stage": "no such entry point"},
        "findings": [first, second],
        "faults": [Fault("wrong bytes", ["one line", "one | store"], [0, 1])],
        "exit_status": 1,
    }
    return case_summary(**{**given, **changes})


def test_junit_has_a_case_for_each_operation() -> None:
    text = junit([result_of(kernel_summary())])
    (suite,) = JUnitXml.fromstring(text.encode())
    outcomes = {case.name: [type(one) for one in case.result] for case in suite}
    expected = {
        "postprocess": [],
        "precopy": [Failure],
        "stage": [Skipped],
        "advance": [Skipped],
        "campaign": [],
    }
    assert outcomes == expected
    assert (suite.tests, suite.failures, suite.skipped) == (5, 1, 2)
    (first,) = next(case for case in suite if case.name == "precopy").result
    assert "<script>" in first.text
    assert "harness replay found/one.json" in first.text
    assert first.message.endswith(" (and 1 finding more)")
    assert "precopy/memory/wrong-bytes/temporal/-\nother\nknown issue F1" in first.text


def test_junit_is_well_formed_whatever_a_signature_holds() -> None:
    found = Finding("pre\x01copy/memory/wrong\x02bytes/conv/SD", HOSTILE, "total", 0, 1, None, None)
    text = junit([result_of(kernel_summary(findings=[found], faults=[Fault(HOSTILE, [], [0])]))])
    (suite,) = JUnitXml.fromstring(text.encode())
    assert "precopy" in {case.name for case in suite}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"harness_failures": 2, "exit_status": 4}, "the harness itself failed in 2 cases"),
        ({"ended_early": "interrupted", "exit_status": 130}, "ended early (interrupted)"),
        ({"missing": ["operation advance"], "exit_status": 3}, "what is missing was not judged (status 3)"),
    ],
)
def test_no_report_is_green_where_a_campaign_did_not_do_what_was_asked_for(changes: dict[str, Any], words: str) -> None:
    given = [result_of(kernel_summary(findings=[], faults=[], **changes))]
    (suite,) = JUnitXml.fromstring(junit(given).encode())
    (campaign,) = (case for case in suite if case.name == "campaign")
    assert [type(one) for one in campaign.result] == [Error]
    assert words in campaign.result[0].message
    (run,) = json.loads(sarif(given))["runs"]
    assert run["invocations"][0]["executionSuccessful"] is False
    assert words in run["invocations"][0]["exitCodeDescription"]
    assert words.replace("(", "").split()[-1] in markdown(given)


def test_a_failure_names_what_does_not_count_too() -> None:
    summary = known_before()
    third = msgspec.structs.replace(summary.findings[2], signature="precopy/memory/stray-write/conv/SD", summary="new")
    changed = msgspec.structs.replace(summary, findings=[*summary.findings[:2], third])
    (suite,) = JUnitXml.fromstring(junit([result_of(changed)]).encode())
    (failure,) = next(case for case in suite if case.name == "precopy").result
    assert (failure.message, failure.type) == ("new", "memory/stray-write")
    assert "already in 'before'" in failure.text
    assert "muted: " in failure.text


def test_sarif_points_at_the_lines_of_the_target() -> None:
    (run,) = json.loads(sarif([result_of(kernel_summary())]))["runs"]
    (found,) = run["results"]
    assert found["ruleId"] == "memory/wrong-bytes"
    assert run["tool"]["driver"]["rules"] == [
        {"id": "memory/wrong-bytes", "shortDescription": {"text": "memory: wrong-bytes"}}
    ]
    assert found["level"] == "error"
    physical = found["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": "vllm/v1/worker/mamba_utils.py", "uriBaseId": "%SRCROOT%"}
    assert physical["region"] == {"startLine": 157}


def test_an_annotation_is_one_line_whatever_the_text() -> None:
    one, other = (annotation(finding) for finding in result_of(kernel_summary()).json["findings"])
    assert one.startswith(
        "::error file=vllm/v1/worker/mamba_utils.py,line=157,title=precopy/memory/wrong-bytes/conv/SD::"
    )
    assert "\n" not in one
    assert "%0Anext" in one
    assert "%250A" in one, "a per cent sign of the text itself"
    assert other.startswith("::warning title="), "a known issue"


def test_markdown_cannot_be_injected_into() -> None:
    text = markdown([result_of(kernel_summary())])
    assert "<script>" not in text
    assert "| `" not in text
    assert all(line.count("|") - line.count("\\|") in (0, 3) for line in text.splitlines())
    assert "1 finding more that very likely have the same cause (one line, one \\| store):" in text
    assert f"- {result_of(kernel_summary()).json['findings'][1]['signature'].split('/')[0]}" in text


def test_sequences_are_reported_too() -> None:
    finding = sequence_finding("left-out-row")
    summary = msgspec.structs.replace(sequence_summary([finding]), faults=[Fault("t", [], [0])])
    given = [result_of(summary)]
    (suite,) = JUnitXml.fromstring(junit(given).encode())
    assert [(case.name, len(case.result)) for case in suite] == [("sequence", 1), ("campaign", 0)]
    assert json.loads(sarif(given))["runs"][0]["results"][0]["level"] == "warning"
    assert "left-out-row" in markdown(given)


def test_reports_are_written_once_with_all_results(tmp_path: Path) -> None:
    asked = [(REGISTRY.named("junit"), tmp_path / "j.xml"), (REGISTRY.named("sarif"), tmp_path / "s.json")]
    with written_reports(asked) as handle:
        for seed in (1, 2):
            handle(CampaignFinished(kernel_summary(seed=seed)))
    assert len(JUnitXml.fromfile(str(tmp_path / "j.xml"))) == 2
    assert len(json.loads((tmp_path / "s.json").read_text())["runs"]) == 2


def test_no_report_is_green_where_the_command_was_broken_off(tmp_path: Path) -> None:
    names = ("junit", "sarif", "markdown")

    def campaigns() -> None:
        with written_reports([(REGISTRY.named(name), tmp_path / name) for name in names]) as handle:
            handle(CampaignFinished(kernel_summary(findings=[], faults=[], exit_status=0)))
            raise Refusal("no such target: 'next'")

    with pytest.raises(Refusal):
        campaigns()
    whole, broken = JUnitXml.fromfile(str(tmp_path / "junit"))
    assert [len(case.result) for case in whole if case.name == "campaign"] == [0]
    (case,) = broken
    assert (case.result[0].message, case.result[0].type) == ("no such target: 'next'", "status 2")
    runs = json.loads((tmp_path / "sarif").read_text())["runs"]
    assert [run["invocations"][0]["executionSuccessful"] for run in runs] == [True, False]
    assert "no such target: 'next'" in (tmp_path / "markdown").read_text()


def test_a_report_that_cannot_be_written_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    asked = [(REGISTRY.named("junit"), tmp_path / "gone" / "j.xml"), (REGISTRY.named("markdown"), tmp_path / "page.md")]

    def campaigns() -> None:
        with written_reports(asked) as handle:
            (tmp_path / "gone").rmdir()
            (tmp_path / "gone").write_text("a file now")
            handle(CampaignFinished(kernel_summary()))

    with pytest.raises(OSError, match="gone"):
        campaigns()
    assert (tmp_path / "page.md").read_text().startswith("## harness")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("junit=OUT/cases.journal",), "that file is the campaign's own"),
        (("junit=OUT/a.xml", "sarif=OUT/../NAME/a.xml"), "something else is written there"),
        (("junit=OUT/a.xml,sarif=OUT/a.xml",), "something else is written there"),
        (("junit=",), "write --report junit=FILE"),
    ],
)
def test_reports_take_no_place_of_other_files(texts: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match=message):
        parse_reports([text.replace("OUT", str(tmp_path)).replace("NAME", tmp_path.name) for text in texts], tmp_path)


def test_an_exception_named_like_a_path_is_one_violation() -> None:
    assert parts_of({"signature": "precopy/execution/a/b\nc/conv/SD"}) == ("precopy", "execution", "a/b\nc")


def test_github_needs_a_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    with pytest.raises(Refusal, match="--report markdown=FILE"):
        require_job()
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    with written_reports([(REGISTRY.named("github"), None)]) as handle:
        handle(CampaignFinished(kernel_summary()))
    assert page.read_text().startswith("before\n## harness\n")


def test_an_unknown_report_names_those_that_there_are() -> None:
    with pytest.raises(UnknownReport, match="known: html, junit, sarif, markdown, jsonl, github"):
        REGISTRY.named("junitt")


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ("junit", "harness: Invalid value: --report junit: write --report junit=FILE"),
        ("github=x", "harness: Invalid value: --report github=x: write --report github"),
        ("junit=/dev/null", "/dev/null"),
    ],
)
def test_the_command_line_refuses_in_one_line(
    harness: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, report: str, message: str
) -> None:
    done = harness("run", "-t", "builtin", "--cases", 1, "--out", tmp_path / "o", "--report", report)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def known_before() -> CaseSummary:
    """A summary of three findings: the first two are known, each in another way, and one mute has expired."""
    first, second = kernel_summary().findings
    third = msgspec.structs.replace(second, signature="postprocess/memory/wrong-bytes/temporal/-")
    standing = Standing(
        muted=[Muted(finding=0, mute="this", reason=HOSTILE, until="2026-12-31", link="https://example.org")],
        expired=[ExpiredMute(mute="that", on="2026-06-14")],
        baseline=Baseline(
            folder="before",
            target="x",
            updated="then",
            new=[2],
            still=[StillThere(finding=1)],
            gone=[],
            not_looked_at=[],
        ),
    )
    faults = [Fault("wrong bytes", ["one line"], [0, 1]), Fault("other", [], [2])]
    return kernel_summary(findings=[first, second, third], faults=faults, standing=standing)


def test_junit_skips_what_does_not_count() -> None:
    (suite,) = JUnitXml.fromstring(junit([result_of(known_before())]).encode())
    outcomes = {case.name: [type(one) for one in case.result] for case in suite}
    assert outcomes["precopy"] == [Skipped]
    assert outcomes["postprocess"] == [Failure]
    assert outcomes["campaign"] == [Failure]
    (known,) = next(case for case in suite if case.name == "precopy").result
    assert "until 2026-12-31 (https://example.org)" in known.message
    assert "already in 'before'" in known.message
    (problem,) = next(case for case in suite if case.name == "campaign").result
    assert problem.message == "mute of that expired on 2026-06-14"


def test_sarif_suppresses_what_does_not_count() -> None:
    (run,) = json.loads(sarif([result_of(known_before())]))["runs"]
    known, new = run["results"]
    assert [one["kind"] for one in known["suppressions"]] == ["external", "external"]
    assert known["suppressions"][0]["justification"].endswith("until 2026-12-31 (https://example.org)")
    assert (known["level"], new["suppressions"]) == ("warning", [])
    assert (known["baselineState"], new["baselineState"]) == ("unchanged", "new")
    notes = run["invocations"][0]["toolExecutionNotifications"]
    assert [one["message"]["text"] for one in notes] == ["mute of that expired on 2026-06-14"]


def test_a_fault_with_a_new_finding_is_not_suppressed() -> None:
    summary = known_before()
    one_fault = msgspec.structs.replace(summary, faults=[Fault("wrong bytes", ["one line"], [0, 1, 2])])
    (run,) = json.loads(sarif([result_of(one_fault)]))["runs"]
    (found,) = run["results"]
    assert (found["level"], found["suppressions"]) == ("error", [])


def test_github_says_why_a_finding_does_not_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    report_to_job([result_of(known_before())])
    first, second, third = capsys.readouterr().err.splitlines()
    assert first.startswith("::notice ")
    assert "muted: " in first
    assert second.startswith("::warning "), "a known issue that is new here"
    assert third == "::error title=harness::mute of that expired on 2026-06-14"
    text = (tmp_path / "summary.md").read_text()
    assert "<script>" not in text
    assert "muted: " in text
    assert "already in 'before'" in text
    assert "Failed: mute of that expired on 2026-06-14" in text
