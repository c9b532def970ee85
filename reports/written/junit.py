"""JUnit: a suite for each campaign, a test case for each operation, whose findings are its failures.

A file of the corpus is a case of its own. One more case, `campaign`, is an error if the campaign could not do what was
asked for: it was interrupted, something is missing, or the harness failed; a mute that has expired, or whose finding no
longer occurs, is a failure of it. What does not count is skipped, with the reason: a finding that was known, and an
operation that no case judged, so that nothing is green that was not looked at.

A case has one outcome, with the texts of all, since CI systems show only one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite
from junitparser.junitparser import FinalResult

from harness.exit_status import FINDINGS, NOTHING_FOUND
from harness.reports.written.result import Json, Result, about, parts_of, plain, standing_of, why_not_counted
from harness.subject.standing import CorpusAnswer
from harness.text import counted


def junit(results: Sequence[Result]) -> str:
    """The XML of all results."""
    whole = JUnitXml("harness")
    for result in results:
        suite = TestSuite(plain(result.title))
        for name, outcome in _cases(result):
            case = TestCase(name, classname=plain(f"harness.{result.json['target']}"))
            case.result = [] if outcome is None else [outcome]
            suite.add_testcase(case)
        whole.append(suite)  # type: ignore[no-untyped-call]
    whole.update_statistics()  # type: ignore[no-untyped-call]
    for suite, result in zip(whole, results, strict=True):  # afterwards: cases have no times to add up
        suite.time = result.json["whole_seconds"]
    whole.time = sum(result.json["whole_seconds"] for result in results)
    whole._elem.attrib.pop("skipped", None)  # schemas allow it at suites alone
    return cast(bytes, whole.tostring()).decode()  # type: ignore[no-untyped-call]


def _cases(result: Result) -> Iterator[tuple[str, FinalResult | None]]:
    """Names of test cases, with what is wrong with each; None for one that passes."""
    json = result.json
    found: dict[str, list[Json]] = {}
    for finding in json["findings"]:
        found.setdefault(parts_of(finding)[0], []).append(finding)
    judged: dict[str, int] = json.get(
        "judged", {}
    )  # of kernel cases; sequences have one operation, which campaign covers
    for operation in dict.fromkeys((*judged, *found)):
        outcome: FinalResult | None = None
        if operation in found:
            outcome = _found(json, found[operation])
        elif not judged[operation]:
            outcome = Skipped(plain(json["lacking"].get(operation) or "no case of it was judged"))
        yield plain(operation), outcome
    done = json["exit_status"] in (NOTHING_FOUND, FINDINGS)
    standing = standing_of(json)
    for replayed in standing.corpus:
        yield f"corpus {plain(replayed.file)}", _replayed(replayed)
    problems = list(standing.mute_problems)
    if not done:
        yield "campaign", Error(plain("; ".join((result.answer, *json["missing"], *problems))), _status(json))
    else:
        yield "campaign", Failure(plain("; ".join(problems)), "mute") if problems else None


def _status(json: Json) -> str:
    return f"status {json['exit_status']}"


def _found(json: Json, findings: Sequence[Json]) -> FinalResult:
    """The findings of one operation: a failure if one of them counts."""
    known = [why_not_counted(json, finding) for finding in findings]
    texts = [
        "\n".join((finding["signature"], *filter(None, [why]), *about(finding)))
        for finding, why in zip(findings, known, strict=True)
    ]
    counting = [finding for finding, why in zip(findings, known, strict=True) if why is None]
    if not counting:
        reasons = [f"{finding['signature']}: {why}" for finding, why in zip(findings, known, strict=True)]
        return Skipped(plain("; ".join(reasons)))
    first, *more = counting
    others = f" (and {counted(len(more), 'finding')} more)" if more else ""
    failure = Failure(plain(f"{first['summary']}{others}"), plain("/".join(parts_of(first)[1:])))
    failure.text = plain("\n\n".join(texts))
    return failure


def _replayed(one: CorpusAnswer) -> FinalResult | None:
    if one.answer == "FIXED":
        return None
    if not one.counts:
        return Skipped(plain(one.reason or f"{one.name}: muted: {one.muted}"))
    failure = Failure(plain(one.summary), "corpus")
    failure.text = plain(f"{one.name}\nharness replay {one.file}")
    return failure
