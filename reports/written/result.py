"""A result is what one campaign of a command reached, as the object that `--json` prints (docs/json.md).

A command has several if it runs several subjects, or several targets. Here is what the written reports ask of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Result = Mapping[str, Any]
Finding = Mapping[str, Any]


def subject_of(result: Result) -> str:
    """`case`, `sequence` or `engine`."""
    if "sequences" not in result:
        return "case"
    return "engine" if "build" in result else "sequence"


def title(result: Result) -> str:
    """What was run, in a few words."""
    return f"{result['target']}, {_counted(result)}, seed {result['seed']}"


def _counted(result: Result) -> str:
    kind = subject_of(result)
    number = result["cases" if kind == "case" else "sequences"]
    noun = {"case": "case", "sequence": "sequence", "engine": "sequence on an engine"}[kind]
    return f"{number} {noun}" if number == 1 else f"{number} {noun.replace(noun.split()[0], noun.split()[0] + 's', 1)}"


def faults(result: Result) -> Iterator[tuple[Finding, Sequence[Finding], str]]:
    """The simplest finding of each fault, its other findings, and what they share in words."""
    findings = result["findings"]
    for fault in result["faults"]:
        first, *others = (findings[number] for number in fault["findings"])
        yield first, others, fault["shared"]


def parts_of(finding: Finding) -> tuple[str, str, str]:
    """Operation, oracle and violation of a signature."""
    operation, oracle, violation, *_ = finding["signature"].split("/")
    return operation, oracle, violation


def about(finding: Finding) -> list[str]:
    """What is known of a finding, a sentence each: what was wrong, the diagnosis, the known issue, the file."""
    lines = [finding["summary"]]
    if finding.get("diagnosis"):
        lines.append(finding["diagnosis"]["sentence"])
    if finding.get("issue"):
        lines.append(f"{'REGRESSION of' if finding.get('regression') else 'known issue'}: {finding['issue']}")
    if finding.get("settings") is not None:
        lines.append(f"needs {'; '.join(finding['settings'])}" if finding["settings"] else "at default options")
    if finding["repro"]:
        lines.append(f"harness replay {finding['repro']}")
    return lines


def places(finding: Finding) -> Sequence[Mapping[str, Any]]:
    """Lines of the code under test that it goes back to, the innermost first."""
    found: Sequence[Mapping[str, Any]] = finding.get("places") or ()
    return found


def answer(result: Result) -> str:
    """The result in a word or two."""
    words = {0: "nothing found", 1: f"{len(result['findings'])} findings", 3: "something is missing"}
    return words.get(result["exit_status"], "the harness failed")
