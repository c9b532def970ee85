"""The documents say what is so: every violation has its row, and the examples run as they stand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from harness.campaign.several import TargetComparison
from harness.campaign.stats import FoundSoFar, Stats
from harness.case.sequence import Event, SequenceConfig
from harness.check.evidence import OBJECTS
from harness.end_to_end.confirming import Confirmation, WrongToken
from harness.end_to_end.summary import EngineSummary
from harness.engines.random import Recipe, case_at
from harness.generators.sequences.configurations import PINS
from harness.issues.known_issue import KnownIssue
from harness.issues.registry import DEFAULT_FIXES, KNOWN_ISSUES
from harness.kernel_cases.summary import CaseSummary, Finding, LineCoverage
from harness.oracles.states.violation import KINDS
from harness.regimes import REGIMES, Regime
from harness.reports import words
from harness.reports.shown_sequence import print_sequence
from harness.repro import SequenceRepro, read_any
from harness.sequences.counters import ENOUGH_STEPS, THRESHOLDS
from harness.sequences.summary import SequenceFinding, SequenceSummary
from harness.subject.faults import Fault
from harness.subject.standing import (
    Absent,
    Baseline,
    CorpusAnswer,
    ExpiredMute,
    Muted,
    NeedlessMute,
    Standing,
    StillThere,
)

ROOT = Path(__file__).resolve().parents[1]
VIOLATIONS = (ROOT / "docs" / "violations.md").read_text(encoding="utf-8")
EXTENDING = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
SEQUENCES = (ROOT / "docs" / "sequences.md").read_text(encoding="utf-8")

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def rows(text: str) -> dict[str, str]:
    """The first two cells of each row whose first one is a name."""
    return dict(re.findall(r"^\| `([^`]+)` \| ([^|]+?) \|", text, re.MULTILINE))


def test_every_violation_is_explained_and_no_other() -> None:
    kernels, _, sequences = VIOLATIONS.partition("## meaning")
    assert rows(sequences) == {
        **KINDS,
        "exception-NAME": "production code raised that exception",
        "process-crash-SIGNAL": "the process was ended by that signal",
        "process-exit-STATUS": "the process ended itself with that status",
    }
    explained = rows(kernels)
    for ending in ("crash-SIGNAL", "exit-STATUS"):
        assert explained.pop(ending)
    assert set(explained) == set(words._VIOLATIONS)
    for name, meaning in words._VIOLATIONS.items():
        assert explained[name].startswith(meaning), name


def test_every_kind_of_object_is_explained() -> None:
    (row,) = re.findall(r"^\| object \| (.+) \|$", VIOLATIONS, re.MULTILINE)
    for kind in (*OBJECTS, "call", "half-way", "process", "transfer", "mamba"):
        assert f"`{kind}`" in row


def test_the_fields_of_json_are_explained() -> None:
    """A table for each object, in the order of the page; fields in the order in which they are printed."""
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    page = page.partition("# What `--report jsonl=FILE` writes")[0]  # has a table of events
    tables = [re.findall(r"^\| `(\w+)` \| \S", table, re.MULTILINE) for table in page.split("| field | meaning |")[1:]]
    objects = (CaseSummary, Finding, Fault, LineCoverage, TargetComparison, SequenceSummary, SequenceFinding)
    objects += (EngineSummary, Standing, Muted, ExpiredMute, NeedlessMute, Baseline, StillThere, Absent, CorpusAnswer)
    objects += (Confirmation, WrongToken, Stats, FoundSoFar)
    assert tables == [list(one.__struct_fields__) for one in objects]


def table(head: str) -> dict[str, str]:
    """The rows of the table of docs/sequences.md whose first column is headed so, in order: its first two cells."""
    (found,) = re.findall(rf"^\| {head} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", SEQUENCES, re.MULTILINE)
    return rows(found)


def test_everything_that_a_sequence_is_made_of_is_explained() -> None:
    assert tuple(table("field")) == SequenceConfig.__struct_fields__
    assert tuple(table("event")) == tuple(kind.__struct_config__.tag for kind in get_args(Event))
    for kind in get_args(Event):
        explained = SEQUENCES.split(f"| `{kind.__struct_config__.tag}` |")[1].split("\n")[0]
        for field in msgspec.structs.fields(kind):
            if field.name not in ("request", "prompt", "priority", "mode"):
                assert f"`{field.name}`" in explained, field.name


def test_pins_fixes_and_thresholds_are_those_of_the_code() -> None:
    assert table("pin") == PINS
    assert sorted(table("fix")) == sorted(DEFAULT_FIXES)
    assert {name: float(least) for name, least in table("counter").items()} == THRESHOLDS
    assert f"From {ENOUGH_STEPS:,} steps on" in SEQUENCES


@pytest.mark.parametrize("issue", KNOWN_ISSUES, ids=lambda issue: str(issue.name))
def test_each_known_issue_says_where_to_read_about_it(issue: KnownIssue) -> None:
    public = re.fullmatch(r"https://github\.com/vllm-project/vllm/(?:pull|issues)/(\d+)", issue.report)
    findings = (ROOT / "docs/findings.md").read_text()
    assert re.search(rf"\| {issue.name}\b", findings), "a row of its own"
    if public is not None:
        assert f"[#{public[1]}]({issue.report})" in findings
    else:
        report = ROOT / issue.report
        assert report.is_file(), f"{issue.report} is not there"
        assert issue.name in report.read_text()


def test_the_example_of_a_finding_is_what_show_prints(capsys: pytest.CaptureFixture[str]) -> None:
    (file,) = re.findall(r"`harness show (corpus/\S+)`", SEQUENCES)
    _, repro = read_any(ROOT / file)
    assert isinstance(repro, SequenceRepro)
    print_sequence(Path(file), repro)
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    (example,) = re.findall(r"```text\n(.*?)```", SEQUENCES, re.DOTALL)
    for line in example.splitlines():
        assert any(one.endswith(line) for one in shown), line


def examples(language: str) -> dict[str, str]:
    """The blocks of code of the page that name a file in their first line."""
    found = re.findall(rf"```{language}\n# (\S+\.\w+)\n(.*?)```", EXTENDING, re.DOTALL)
    assert len(dict(found)) == len(found)
    return dict(found)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The folder that holds the package of the examples, as an installation would leave it."""
    folder = tmp_path / "installed"
    for name, text in examples("python").items():
        if name.startswith("my_checks/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    project = tomllib.loads(examples("toml")["pyproject.toml"])["project"]
    info = folder / f"my_checks-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


@pytest.mark.long
def test_the_example_of_a_mutation_is_found(harness: Command, package: Path, executor_name: str) -> None:
    path = os.pathsep.join([str(ROOT), str(package)])
    arguments = ["--ops", "postprocess", "--cases", 200, "--scale", "small", "--relations", "none", "--no-shrink"]
    ran = harness(
        "run", "-t", "builtin+short-bias", "-e", executor_name, *arguments, "--fail-fast", "--json", PYTHONPATH=path
    )
    assert ran.returncode == 1, ran.stderr
    assert {finding["signature"].split("/")[0] for finding in json.loads(ran.stdout)["findings"]} == {"postprocess"}


@pytest.mark.long
def test_the_example_of_a_relation_is_judged(harness: Command, package: Path, executor_name: str) -> None:
    path = os.pathsep.join([str(ROOT), str(package)])
    arguments = ["--ops", "postprocess,precopy", "--relations", "other-payload", "--cases", 16, "--scale", "small"]
    ran = harness("run", "-t", "builtin", "-e", executor_name, *arguments, "--json", PYTHONPATH=path)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["relations"] == {"other-payload": 16}


def test_the_example_of_a_regime_is_reached() -> None:
    found: dict[str, Any] = {"Regime": Regime}
    exec(examples("python")["harness/regimes/blocks.py"], found)
    (regime,) = (value for value in found.values() if isinstance(value, Regime))
    assert regime.name not in REGIMES
    recipe = Recipe(seed=0, domains=("reachable",), operations=("precopy",), scale="small")
    assert {regime.holds(case_at(recipe, index)) for index in range(64)} == {True, False}
