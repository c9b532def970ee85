"""The last line of a run says how many findings look like no known issue, and whether a longer run could help."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.check.outcome import Diagnosis
from harness.issues.kernel_issue import ANOTHER_CAUSE, KernelIssue
from harness.issues.registry import KERNEL_ISSUES
from harness.kernel_cases.summary import Finding
from harness.kernels.targets.vllm.base_release import how_to_have_one
from harness.oracles.diagnosis.catalogue import CATALOGUE
from harness.oracles.diagnosis.diagnose import in_words
from harness.reports.written.result import issue_in_words
from harness.subject.faults import Fault
from tests.summaries import case_summary as summary


@pytest.mark.parametrize(
    ("issues", "text"),
    [
        (("b", "a", "b"), "3 findings: 3 of precopy; all like known ones: a, b"),
        (
            ("a", None, None),
            "3 findings: 3 of precopy; 2 like no known issue, the others like known ones: a; several may be one fault",
        ),
        ((None,), "1 finding: 1 of precopy"),
    ],
)
def test_findings_that_look_like_known_issues_are_counted_apart(issues: tuple[str | None, ...], text: str) -> None:
    answer = summary(*issues).answer()
    assert answer is not None
    assert answer.text.startswith(text)
    assert ("known" in answer.text) == any(issues)


@pytest.mark.parametrize(
    ("missing", "why"),
    [
        (["operation advance"], "the target does not take it"),
        (["operation advance", "regime layout-ds"], "the target does not take it"),
        (["operation advance", "regime null-block"], "a longer run may reach it"),
        (["operation stage"], "a longer run may reach it"),
    ],
)
def test_a_longer_run_does_not_help_where_the_target_lacks_what_is_missing(missing: list[str], why: str) -> None:
    made = summary(
        missing=missing,
        lacking={"advance": "there is none"},
        unjudged={"layout-ds": "lacks-operation: no windows"},
        exit_status=3,
    )
    answer = made.answer()
    assert answer is not None
    assert answer.text.endswith(why)
    told = [line.text for line in made.lines(verbose=False) if line.word == "missing"]
    assert told[0] == f"{missing[0]}: no case"
    assert ("regime layout-ds: no judged case (lacks-operation: no windows)" in told) == ("regime layout-ds" in missing)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "nothing found in 9 cases"),
        ({"cases": 12}, "nothing found in 9 cases (3 more not judged)"),
        ({"regimes": {"a": 0, "b": 2, "c": 0}}, "nothing found in 9 cases; 2 of 3 regimes not reached"),
        ({"cases_judged": 1, "cases": 1}, "nothing found in 1 case"),
    ],
)
def test_the_last_line_says_how_much_it_rests_on(values: dict[str, Any], text: str) -> None:
    answer = summary(**values).answer()
    assert answer is not None
    assert answer.text == text


COMPARE = f"no release was at hand to compare with. What helps: {how_to_have_one('path:../vllm')}"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, f"nothing found in 9 cases; {COMPARE}"),
        (
            {"exit_status": 3, "missing": ["operation stage"]},
            "nothing found in 9 cases, but what is missing was not judged (status 3): "
            f"a longer run may reach it, or it is lost: {COMPARE}",
        ),
        (
            {"exit_status": 3, "missing": ["operation stage"], "lacking": {"stage": "no such function"}},
            f"nothing found in 9 cases, but what is missing was not judged (status 3): it may be lost: {COMPARE}",
        ),
    ],
)
def test_without_a_base_release_the_answer_says_so(values: dict[str, Any], text: str) -> None:
    answer = summary(**values, target="path:../vllm", uncompared=True).answer()
    assert answer is not None
    assert (answer.text, answer.tone) == (text, "bad" if values else "warning")


def test_findings_without_a_base_release() -> None:
    answer = summary(None, uncompared=True).answer()
    assert answer is not None
    assert answer.text.endswith("; no release was at hand to compare with")


def diagnosed(*families: str, deviations: tuple[str, ...] | None = None) -> Diagnosis:
    return Diagnosis(families if deviations is None else deviations, "as if", families=families)


DOUBTED = [one for one in KERNEL_ISSUES if one.families]


@pytest.mark.parametrize("issue", DOUBTED, ids=lambda issue: issue.name)
def test_a_diagnosis_decides_how_sure_a_regression_is(issue: KernelIssue) -> None:
    assert issue.doubt(diagnosed(*issue.families, "another family")) == ""
    assert issue.doubt(diagnosed("another family")) == "the diagnosis names another cause"
    assert issue.doubt(diagnosed()) == issue.doubt(None) == "no diagnosis confirms it"


def test_families_of_issues_are_those_of_deviations() -> None:
    assert {family for one in DOUBTED for family in one.families} <= {one.family for one in CATALOGUE}


@pytest.mark.parametrize("issue", [one for one in KERNEL_ISSUES if not one.families], ids=lambda issue: issue.name)
def test_nothing_doubts_an_issue_that_no_diagnosis_is_made_of(issue: KernelIssue) -> None:
    assert issue.doubt(None) == issue.doubt(diagnosed("another family")) == ""


@pytest.mark.parametrize(
    ("doubt", "words"),
    [
        ("", " [looks like a REGRESSION of a]"),
        ("no diagnosis confirms it", " [may be a REGRESSION of a: no diagnosis confirms it]"),
        (ANOTHER_CAUSE, " [has the signature of a, but the diagnosis names another cause]"),
    ],
)
def test_a_regression_is_said_with_its_doubt(doubt: str, words: str) -> None:
    (finding,) = summary("a").findings
    assert msgspec.structs.replace(finding, regression=True, doubt=doubt).known == words
    as_json = msgspec.to_builtins(msgspec.structs.replace(finding, regression=True, doubt=doubt))
    assert issue_in_words(as_json).endswith(doubt or "REGRESSION of a"), "reports say it too"


def test_what_comes_next_is_the_simplest_finding_with_an_explanation() -> None:
    made = summary(None, None, None)
    findings = [msgspec.structs.replace(one, repro=f"{number}.json") for number, one in enumerate(made.findings)]
    findings[0] = msgspec.structs.replace(findings[0], diagnosis=diagnosed())
    faults = [Fault("one", [], [0, 2]), Fault("two", [], [1])]

    def first(*findings: Finding) -> str:
        lines = msgspec.structs.replace(made, findings=list(findings), faults=faults).lines(verbose=False)
        return next(line.text for line in lines if line.word == "next")

    assert first(*findings) == "harness show 0.json"
    explained = msgspec.structs.replace(findings[1], diagnosis=diagnosed("bias", deviations=("bias-ignored",)))
    assert first(findings[0], explained, findings[2]) == "harness show 1.json"


def test_what_a_target_lacks_altogether_is_one_line() -> None:
    made = summary(
        lacking={"all-mode": "came with 0.25"},
        skipped={"lacks-operation": 7},
        skips={"all-mode: came with 0.25": 5, "stage: other sizes alone": 2},
    )
    lines = [f"{line.word} {line.text}" for line in made.lines(verbose=False)]
    assert [line for line in lines if "all-mode" in line] == ["skipped all-mode altogether (5 cases): came with 0.25"]
    assert "   2 of stage: other sizes alone" in lines


def test_counts_say_what_they_count() -> None:
    (finding,) = summary(None).findings
    assert "(reachable domain, shown by 35 cases)" in msgspec.structs.replace(finding, cases=35).line
    assert "in 13 failing cases that were looked at" in in_words(["bias-ignored"], 13)
