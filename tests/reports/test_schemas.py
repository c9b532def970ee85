"""Written reports are what their schemas and grammars allow, whatever the texts contain.

The published schema of SARIF 2.1.0 comes with an npm package, which a long test downloads. No package ships a schema of
JUnit: what Jenkins accepts (junit-10.xsd of its xUnit plugin) is written down here. Workflow commands of GitHub
have a grammar: what the runner's parser does with a line is done here.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import msgspec
import pytest

from harness.reports.written.github import annotation, report_to_job
from harness.reports.written.junit import junit
from harness.reports.written.result import Result, broken_off, result_of
from harness.reports.written.sarif import sarif
from harness.subject.faults import Fault
from harness.subject.standing import CorpusAnswer, Standing
from tests.reports.test_written import HOSTILE, kernel_summary, known_before
from tests.summaries import sequence_finding, sequence_summary

SCHEMA_PACKAGE = "@microsoft/jest-sarif@1.0.0-beta.0"
SCHEMA_FILE = "package/lib/schemas/sarif-2.1.0-rtm.5.json"
SCHEMA_SHA256 = "2d99159ae54a3eea97f81781cff48780548657c35949f4b7f25e99a2ba4de4f8"


def results() -> list[Result]:
    """Results of every kind: of kernels and of sequences, known and new, with hostile texts, broken off."""
    signature = "x/memory/wrong-bytes/conv/SD"
    corpus = [
        CorpusAnswer(file="a b.json", answer="FAILED", signature=signature, summary=HOSTILE),
        CorpusAnswer(file="c.json", answer="FIXED"),
        CorpusAnswer(file="d.json", answer="SKIPPED", reason=HOSTILE),
    ]
    with_corpus = kernel_summary(standing=Standing(corpus=corpus), exit_status=4, missing=[HOSTILE])
    odd = kernel_summary().findings[0]
    places = [msgspec.structs.replace(odd.places[0], file="a dir/späte\x1b%41:datei.py", line=0, function=HOSTILE)]
    signature = "precopy/exception/Odd\nError:,%/conv/SD"
    odd = msgspec.structs.replace(odd, signature=signature, places=places, repro="out dir/\x07ö.json")
    sequences = sequence_summary([sequence_finding("left-out-row"), sequence_finding(repro=None)])
    sequences.faults = [Fault("t", [], [0]), Fault("u", [], [1])]
    return [
        result_of(kernel_summary()),
        result_of(known_before()),
        result_of(with_corpus),
        result_of(kernel_summary(findings=[odd], faults=[Fault(HOSTILE, [HOSTILE], [0])])),
        result_of(kernel_summary(findings=[], faults=[], exit_status=0)),
        result_of(sequences),
        broken_off(KeyboardInterrupt()),
    ]


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The published schema of SARIF 2.1.0."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm, which downloads the schema, is not here")
    folder = tmp_path_factory.mktemp("schema")
    done = subprocess.run([npm, "pack", SCHEMA_PACKAGE], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        if os.environ.get("HARNESS_REQUIRE_RELEASE") == "1":
            pytest.fail(f"{SCHEMA_PACKAGE} cannot be downloaded: {done.stderr[-500:]}")
        pytest.skip(f"{SCHEMA_PACKAGE} cannot be downloaded")
    (package,) = folder.glob("*.tgz")
    with tarfile.open(package) as archive:
        member = archive.extractfile(SCHEMA_FILE)
        assert member is not None
        text = member.read()
    assert hashlib.sha256(text).hexdigest() == SCHEMA_SHA256
    document: dict[str, Any] = json.loads(text)
    return document


@pytest.mark.long
def test_sarif_is_what_its_schema_allows(schema: dict[str, Any]) -> None:
    validator = jsonschema.Draft4Validator(schema, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER)
    document = json.loads(sarif(results()))
    assert [(list(error.absolute_path), error.message) for error in validator.iter_errors(document)] == []
    assert sum(len(run["results"]) for run in document["runs"]) >= 7
    document["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    assert list(validator.iter_errors(document)), "the schema looks at results"


def test_every_result_of_sarif_has_a_place_that_is_a_uri() -> None:
    for run in json.loads(sarif(results()))["runs"]:
        for found in run["results"]:
            (location,) = found["locations"]
            for place in (location, *found["relatedLocations"]):
                physical = place["physicalLocation"]
                assert re.fullmatch(r"(%[0-9A-F]{2}|[\w.~/-])+", physical["artifactLocation"]["uri"], re.ASCII)
                assert physical["region"]["startLine"] >= 1


TIME = r"[0-9]+(\.[0-9]*)?"
OUTCOME: dict[str, Any] = {"may": {"type", "message"}, "children": set()}
JUNIT: dict[str, Any] = {
    "testsuites": {"may": {"name", "time", "tests", "failures", "errors"}, "children": {"testsuite"}},
    "testsuite": {
        "must": {"name", "tests", "failures", "errors"},
        "may": {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
        "children": {"testsuite", "properties", "testcase", "system-out", "system-err"},
    },
    "testcase": {
        "must": {"name"},
        "may": {"time", "classname", "group"},
        "children": {"skipped", "error", "failure", "system-out", "system-err"},
    },
    "skipped": OUTCOME,
    "error": OUTCOME,
    "failure": OUTCOME,
}
"""By element: attributes that it must and may have, and what may be in it."""


def test_junit_is_what_jenkins_accepts() -> None:
    text = junit(results())
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites"
    for element in root.iter():
        rule = JUNIT[element.tag]
        must = rule.get("must", set())
        assert must <= set(element.attrib)
        assert set(element.attrib) <= must | rule["may"], element.tag
        assert {child.tag for child in element} <= rule["children"]
        if "time" in element.attrib and element.tag != "testcase":
            assert re.fullmatch(TIME, element.attrib["time"])
    for case in root.iter("testcase"):
        assert len(case) <= 1, "only one outcome is shown"
    for suite in root.iter("testsuite"):
        names = [case.attrib["name"] for case in suite.iter("testcase")]
        assert len(set(names)) == len(names)
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.attrib[name]) == len(list(suite.iter(tag)))


def parsed(line: str) -> tuple[str, dict[str, str], str]:
    """A workflow command as the runner reads it: its name, properties and message."""
    match = re.fullmatch(r"::([a-z-]+)(?: ([^\r\n]*?))?::([^\r\n]*)", line)
    assert match is not None, line
    name, listed, message = match.groups()
    properties = dict(one.split("=", 1) for one in (listed or "").split(",") if one)
    assert all("::" not in value for value in properties.values())

    def unescaped(text: str, codes: dict[str, str]) -> str:
        for code, letter in codes.items():
            text = text.replace(code, letter)
        return text.replace("%25", "%")

    ends = {"%0D": "\r", "%0A": "\n"}
    more = {**ends, "%3A": ":", "%2C": ","}
    return name, {key: unescaped(value, more) for key, value in properties.items()}, unescaped(message, ends)


def test_annotations_are_read_as_they_were_meant() -> None:
    seen = 0
    for result in results():
        for finding in result.json["findings"]:
            name, properties, message = parsed(annotation(finding, HOSTILE))
            seen += 1
            assert name == "notice"
            assert set(properties) in ({"title"}, {"title", "file", "line"})
            assert properties["title"] == finding["signature"]
            assert message.splitlines()[0] == "<script>alert(1)</script> ]]> & [31m ::error::"
            assert "next | `code` %0A" in message, "a per cent sign is one"
    assert seen >= 9


def test_a_job_gets_only_commands(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    report_to_job(results())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 8
    assert {parsed(line)[0] for line in lines} <= {"error", "warning", "notice"}
