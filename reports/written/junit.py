"""JUnit: a suite for each campaign, a test case for each operation, whose findings are its failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite
from junitparser.junitparser import FinalResult

from harness.reports.written.result import Finding, Result, about, parts_of, subject_of, title


def junit(results: Sequence[Result]) -> str:
    """The XML of all results."""
    whole = JUnitXml("harness")
    for result in results:
        suite = TestSuite(_clean(title(result)))
        for case in _cases(result):
            suite.add_testcase(case)
        suite.time = result["whole_seconds"]
        whole.append(suite)  # type: ignore[no-untyped-call]
    whole.update_statistics()  # type: ignore[no-untyped-call]
    return cast(bytes, whole.tostring()).decode()  # type: ignore[no-untyped-call]


def _cases(result: Result) -> Iterator[TestCase]:
    found: dict[str, list[Finding]] = {}
    for finding in result["findings"]:
        found.setdefault(parts_of(finding)[0], []).append(finding)
    kind = subject_of(result)
    for operation in dict.fromkeys((*(result["judged"] if kind == "case" else (kind,)), *found)):
        case = TestCase(operation, classname=_clean(f"harness.{result['target']}"))
        failures: list[FinalResult] = [_failure(finding) for finding in found.get(operation, ())]
        case.result = failures or _without_findings(result, operation)
        yield case


def _failure(finding: Finding) -> Failure:
    failure = Failure(_clean(finding["summary"]), "/".join(parts_of(finding)[1:]))
    failure.text = _clean("\n".join((finding["signature"], *about(finding))))
    return failure


def _without_findings(result: Result, operation: str) -> list[FinalResult]:
    """Why an operation without findings did not pass; nothing if it did."""
    lacking = result.get("lacking", {}).get(operation)
    if lacking:
        return [Skipped(_clean(lacking))]
    if result["harness_failures"]:
        return [Error(f"the harness failed in {result['harness_failures']} cases", "harness")]
    return []


def _clean(text: str) -> str:
    """The text without the control characters that XML cannot hold."""
    return "".join(letter for letter in text if letter.isprintable() or letter == "\n")
