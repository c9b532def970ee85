"""A result is what one campaign of a command reached. Written reports are made from results.

A command has several if it runs several subjects, or several targets. Findings here are those of the object that
`--json` prints (docs/json.md), so that whoever has only that object can use the same words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from harness.exit_status import HARNESS_FAILED
from harness.subject.standing import Standing
from harness.subject.summary import Ending, Summary, ending_of
from harness.text import counted, one_line

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """`title` says what was run, `answer` is the last line that a user reads, `json` the object of `--json`."""

    title: str
    answer: str
    json: Json


def result_of(summary: Summary) -> Result:
    """The result with this summary."""
    return result_of_ending(ending_of(summary))


def result_of_ending(ending: Ending) -> Result:
    """The result of a campaign that ended like this."""
    json = ending.summary
    parts = [
        json["ended_early"] and f"ended early ({json['ended_early']})",
        json["harness_failures"] and f"the harness itself failed in {counted(json['harness_failures'], ending.noun)}",
        ending.answer,
    ]
    return Result(
        f"{ending.target}, {counted(ending.count, ending.noun)}, seed {json['seed']}",
        "; ".join(filter(None, parts)) or "nothing was judged",
        json,
    )


def broken_off(error: BaseException) -> Result:
    """The result of a command that ended with an exception, whatever its campaigns had reached by then."""
    why = one_line(error) or type(error).__name__
    status = getattr(error, "exit_status", HARNESS_FAILED)
    json: Json = {
        "target": "-",
        "exit_status": status,
        "findings": [],
        "faults": [],
        "missing": [],
        "whole_seconds": 0.0,
    }
    return Result("the command was broken off", why, json)


def faults(result: Json) -> Iterator[tuple[Json, Sequence[Json], str]]:
    """The simplest finding of each fault, its other findings, and what they share in words."""
    for fault in result["faults"]:
        first, *others = (result["findings"][number] for number in fault["findings"])
        yield first, others, ", ".join(fault["shared"])


def standing_of(result: Json) -> Standing:
    """What its findings count for in the light of what was known before."""
    return msgspec.convert(result.get("standing") or {}, Standing)


def why_not_counted(result: Json, finding: Json) -> str | None:
    """Why a finding of a result does not make status 1, in words; None if it does."""
    standing, number = standing_of(result), result["findings"].index(finding)
    muted = [one.why for one in standing.muted if one.finding == number]
    if muted:
        return f"muted: {muted[0]}"
    if standing.counts(number) or standing.baseline is None:
        return None
    return f"already in '{standing.baseline.folder}'"


def parts_of(finding: Json) -> tuple[str, str, str]:
    """Operation, oracle and violation of a signature."""
    operation, oracle, *violation, _, _ = finding["signature"].split("/")  # an exception's name may hold anything
    return operation, oracle, "/".join(violation)


def plain(text: str) -> str:
    """The text without control characters, which no format here may hold; line breaks stay."""
    return "".join(letter for letter in text if letter.isprintable() or letter == "\n")


def is_known(finding: Json) -> bool:
    """Whether it is a known issue that was never fixed in the release that the target is based on."""
    return bool(finding["issue"]) and not finding["regression"]


def issue_in_words(finding: Json) -> str:
    """The issue of a finding; empty if it has none."""
    if not finding["issue"] or is_known(finding):
        return finding["issue"] or ""
    doubt = finding.get("doubt")
    return f"REGRESSION of {finding['issue']}{f'? It has the signature of that, but {doubt}' if doubt else ''}"


def about(finding: Json) -> list[str]:
    """What is known of a finding, a line each: what was wrong, the diagnosis, the known issue, how to see it again."""
    lines = [finding["summary"]]
    if finding.get("diagnosis"):
        lines.append(finding["diagnosis"]["sentence"])
    if finding["issue"]:
        lines.append(f"{'known issue ' if is_known(finding) else ''}{issue_in_words(finding)}")
    if finding.get("settings") is not None:
        lines.append(f"needs {'; '.join(finding['settings'])}" if finding["settings"] else "at default options")
    lines.append(f"harness replay {finding['repro']}" if finding["repro"] else "not saved")
    return lines


def places(finding: Json) -> Sequence[Json]:
    """Lines of the code under test that it goes back to, the innermost first."""
    found: Sequence[Json] = finding.get("places") or ()
    return found
