"""JUnit: a suite for each campaign, a test case for each operation, whose findings are its failures.

One more case, `campaign`, is an error if the campaign could not do what was asked for: it was interrupted, something is
missing, or the harness failed. An operation that no case judged is skipped, so nothing is green that was not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite
from junitparser.junitparser import FinalResult

from harness.exit_status import FINDINGS, NOTHING_FOUND
from harness.reports.written.result import Json, Result, about, parts_of, plain


def junit(results: Sequence[Result]) -> str:
    """The XML of all results."""
    whole = JUnitXml("harness")
    for result in results:
        suite = TestSuite(plain(result.title))
        for name, outcome in _cases(result):
            case = TestCase(name, classname=plain(f"harness.{result.json['target']}"))
            case.result = outcome
            suite.add_testcase(case)
        whole.append(suite)  # type: ignore[no-untyped-call]
    whole.update_statistics()  # type: ignore[no-untyped-call]
    for suite, result in zip(whole, results, strict=True):  # afterwards: cases have no times to add up
        suite.time = result.json["whole_seconds"]
    whole.time = sum(result.json["whole_seconds"] for result in results)
    return cast(bytes, whole.tostring()).decode()  # type: ignore[no-untyped-call]


def _cases(result: Result) -> Iterator[tuple[str, list[FinalResult]]]:
    """Names of test cases, with what is wrong with each; nothing for one that passes."""
    json = result.json
    found: dict[str, list[FinalResult]] = {}
    for finding in json["findings"]:
        found.setdefault(parts_of(finding)[0], []).append(_failure(finding))
    judged: dict[str, int] = json.get(
        "judged", {}
    )  # of kernel cases; sequences have one operation, which campaign covers
    for operation in dict.fromkeys((*judged, *found)):
        if operation not in found and not judged[operation]:
            found[operation] = [Skipped(plain(json["lacking"].get(operation) or "no case of it was judged"))]
        yield operation, found.get(operation, [])
    done = json["exit_status"] in (NOTHING_FOUND, FINDINGS)
    why = "; ".join((result.answer, *json["missing"]))
    yield "campaign", [] if done else [Error(plain(why), f"status {json['exit_status']}")]


def _failure(finding: Json) -> Failure:
    failure = Failure(plain(finding["summary"]), "/".join(parts_of(finding)[1:]))
    failure.text = plain("\n".join((finding["signature"], *about(finding))))
    return failure
