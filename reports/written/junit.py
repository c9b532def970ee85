"""JUnit: a suite for each campaign, a test case for each operation, whose findings are its failures.

A file of the corpus is a case of its own. One more case, `campaign`, is an error if the campaign could not do what was
asked for: it was interrupted, something is missing, or the harness failed; a mute that has expired, or whose finding no
longer occurs, is a failure of it. What does not count is skipped, with the reason: a finding that was known, and an
operation that no case judged, so that nothing is green that was not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite
from junitparser.junitparser import FinalResult

from harness.exit_status import FINDINGS, NOTHING_FOUND
from harness.reports.written.result import Json, Result, about, parts_of, plain, standing_of, why_not_counted
from harness.subject.standing import CorpusAnswer


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
        known = why_not_counted(json, finding)
        outcome = _failure(finding) if known is None else Skipped(plain(f"{finding['signature']}: {known}"))
        found.setdefault(parts_of(finding)[0], []).append(outcome)
    judged: dict[str, int] = json.get(
        "judged", {}
    )  # of kernel cases; sequences have one operation, which campaign covers
    for operation in dict.fromkeys((*judged, *found)):
        if operation not in found and not judged[operation]:
            found[operation] = [Skipped(plain(json["lacking"].get(operation) or "no case of it was judged"))]
        yield operation, found.get(operation, [])
    done = json["exit_status"] in (NOTHING_FOUND, FINDINGS)
    why = "; ".join((result.answer, *json["missing"]))
    standing = standing_of(json)
    for replayed in standing.corpus:
        yield f"corpus {plain(replayed.file)}", _replayed(replayed)
    problems: list[FinalResult] = [Failure(plain(one), "mute") for one in standing.mute_problems]
    yield "campaign", problems if done else [*problems, Error(plain(why), f"status {json['exit_status']}")]


def _replayed(one: CorpusAnswer) -> list[FinalResult]:
    if one.answer == "FIXED":
        return []
    if not one.counts:
        return [Skipped(plain(one.reason or f"{one.name}: muted: {one.muted}"))]
    failure = Failure(plain(one.summary), "corpus")
    failure.text = plain(f"{one.name}\nharness replay {one.file}")
    return [failure]


def _failure(finding: Json) -> Failure:
    failure = Failure(plain(finding["summary"]), "/".join(parts_of(finding)[1:]))
    failure.text = plain("\n".join((finding["signature"], *about(finding))))
    return failure
