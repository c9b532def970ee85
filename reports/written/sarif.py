"""SARIF 2.1.0: findings as results of a static analysis, at the lines of the code under test that they go back to.

Code hosts and editors show them there. Files are relative to the root of the target's checkout (`%SRCROOT%`). Every
result has a location, since GitHub refuses a whole file in which one has none: a finding that goes back to no line is
at the beginning of its repro file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from harness import __version__
from harness.exit_status import FINDINGS, NOTHING_FOUND
from harness.reports.written.result import (
    Json,
    Result,
    about,
    faults,
    is_known,
    parts_of,
    places,
    plain,
    standing_of,
    why_not_counted,
)
from harness.text import counted

NOT_SAVED = "finding-that-could-not-be-saved.json"
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(results: Sequence[Result]) -> str:
    """One run of the tool for each result."""
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(result) for result in results]}, indent=1)


def _run(result: Result) -> dict[str, Any]:
    found = list(_results(result.json))
    status = result.json["exit_status"]
    rules = sorted({one["ruleId"] for one in found})
    return {
        "tool": {
            "driver": {
                "name": "harness",
                "version": __version__,
                "rules": [{"id": rule, "shortDescription": {"text": rule.replace("/", ": ")}} for rule in rules],
            }
        },
        "automationDetails": {"id": plain(result.title)},
        "invocations": [
            {
                "executionSuccessful": status in (NOTHING_FOUND, FINDINGS),
                "exitCode": status,
                "exitCodeDescription": plain(result.answer),
                "toolExecutionNotifications": [
                    {"level": "error", "message": {"text": plain(one)}} for one in standing_of(result.json).problems
                ],
            }
        ],
        "results": found,
    }


def _results(result: Json) -> Iterator[dict[str, Any]]:
    """A result for each fault: its simplest finding, and the lines of the others as related ones. It is suppressed if
    none of them counts."""
    for first, others, shared in faults(result):
        more = [*_locations(first)[1:], *(place for other in others for place in _locations(other)[:1])]
        related = [place for number, place in enumerate(more) if place not in more[:number]]
        reasons = [why_not_counted(result, one) for one in (first, *others)]
        known = None not in reasons
        yield {
            "ruleId": "/".join(parts_of(first)[1:]),
            "level": "warning" if known or is_known(first) else "error",
            "message": {"text": plain("\n".join((*about(first), *_others(others, shared))))},
            "locations": _locations(first)[:1] or [_at_its_file(first)],
            "relatedLocations": [{"id": number, **place} for number, place in enumerate(related, 1)],
            "partialFingerprints": {"signature/v1": hashlib.sha256(first["signature"].encode()).hexdigest()[:32]},
            "properties": {"signature": first["signature"], "repro": first["repro"], "issue": first["issue"]},
            **_baseline_state(result, [first, *others]),
            "suppressions": [
                {"kind": "external", "status": "accepted", "justification": plain(why)}
                for why in dict.fromkeys(filter(None, reasons))
                if known
            ],
        }


def _baseline_state(result: Json, findings: Sequence[Json]) -> dict[str, str]:
    """Whether a fault is new since the baseline, if there is one: it is if one of its findings is."""
    baseline = standing_of(result).baseline
    if baseline is None:
        return {}
    new = any(result["findings"].index(finding) in baseline.new for finding in findings)
    return {"baselineState": "new" if new else "unchanged"}


def _others(others: Sequence[Json], shared: str) -> Iterator[str]:
    """The other findings of a fault, a line each."""
    if others:
        yield f"{counted(len(others), 'finding')} more that very likely have the same cause ({shared}):"
        yield from (f"{other['signature']}: {other['repro'] or 'not saved'}" for other in others)


def _locations(finding: Json) -> list[dict[str, Any]]:
    return [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": _uri(place["file"]), "uriBaseId": "%SRCROOT%"},
                "region": {"startLine": max(1, place["line"])},
            },
            "message": {"text": plain(f"{place['role']} in {place['function']}")},
        }
        for place in places(finding)
    ]


def _at_its_file(finding: Json) -> dict[str, Any]:
    """Where a finding is that goes back to no line."""
    file = finding["repro"] or NOT_SAVED
    return {
        "physicalLocation": {"artifactLocation": {"uri": _uri(file)}, "region": {"startLine": 1}},
        "message": {"text": "the finding goes back to no line of the code under test: this is its file"},
    }


def _uri(file: str) -> str:
    """A path as a URI reference, whatever its names hold."""
    return quote(plain(file), safe="/")
