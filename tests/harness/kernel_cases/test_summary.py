"""The last line of a run says how many findings look like no known issue, and whether a longer run could help."""

from __future__ import annotations

from typing import Any

import pytest

from harness.kernel_cases.summary import CaseSummary, Finding


def summary(*issues: str | None, **values: Any) -> CaseSummary:
    """A summary with a finding for each of `issues`, which it looks like; None: it looks like none."""
    findings = [
        Finding(f"precopy/memory/wrong-bytes/object-{i}/-", "wrong", "reachable", i, 1, None, None, issue)
        for i, issue in enumerate(issues)
    ]
    fields: dict[str, Any] = {
        "seed": 0,
        "target": "vllm==0.25.0",
        "executor": "native",
        "engine": "random",
        "domain": "reachable",
        "cases": 9,
        "judged": {"precopy": 9},
        "skipped": {},
        "launches": 9,
        "in_this_part": 9,
        "seconds": 1.0,
        "whole_seconds": 1.0,
        "cases_per_second": 9.0,
        "regimes": {},
        "kernel_lines": [],
        "findings": findings,
        "exit_status": 1 if findings else 0,
        "missing": [],
        "harness_failures": 0,
        "lacking": {},
        "relations": {},
    }
    return CaseSummary(**{**fields, **values})


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
        (["operation advance"], "the target lacks it"),
        (["operation advance", "regime null-block"], "a longer run may reach it"),
        (["operation stage"], "a longer run may reach it"),
    ],
)
def test_a_longer_run_does_not_help_where_the_target_lacks_an_operation(missing: list[str], why: str) -> None:
    answer = summary(missing=missing, lacking={"advance": "there is none"}, exit_status=3).answer()
    assert answer is not None
    assert answer.text.endswith(why)
