"""A page is what the HTML report says, without any HTML: of each campaign what ran, its faults, and their findings.

It holds the words of summaries, evidence, diagnoses and groups, and adds none of its own. Evidence is read from the
repro files of the findings; where a file is not there, the page says so.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from harness.case import InvalidCase
from harness.check.outcome import Difference
from harness.exit_status import FINDINGS, NOTHING_FOUND
from harness.issues.registry import changed_by_a_fix, lines_about
from harness.reports.case_in_words import case_in_words
from harness.reports.pictures.picture import Picture
from harness.reports.pictures.registry import picture_of
from harness.reports.section import Section
from harness.reports.shown_sequence import sequence_in_words
from harness.reports.words import difference_in_words
from harness.reports.written.result import Json, Result, issue_in_words, places, standing_of, why_not_counted
from harness.repro import AnyRepro, EngineRepro, Repro, SequenceRepro, read_any
from harness.subject.edits import EditCoverage, EditedLines, edits_in_words
from harness.text import counted

OPEN_FAULTS = 12
"""A page with more faults shows them folded."""

PICTURED_FAULTS = 300
"""Faults after so many have no picture, so that a page stays small enough to open; `harness show` draws theirs."""

HEADING = 160
"""The most letters of a fault's heading."""

_REFERENCE = re.compile(r" \((?:https?://|docs/)\S*\)$")
"""Where to read about a known issue, at the end of a line about it."""

_SETTINGS = {
    "target": "target",
    "build": "build",
    "executor": "executor",
    "engine": "cases from",
    "domain": "domain",
    "seed": "seed",
    "harness_version": "version of the harness",
    "exit_status": "exit status",
    "ended_early": "ended early",
}
_AMOUNTS = {
    "cases": "cases",
    "cases_judged": "cases with a judged operation",
    "sequences": "sequences",
    "steps": "steps",
    "launches": "launches",
    "in_this_part": "of them judged since it was last resumed",
    "seconds": "seconds of judging",
    "whole_seconds": "seconds with sorting findings out",
    "cases_per_second": "cases a second",
    "steps_per_second": "steps a second of processor time",
    "harness_failures": "failures of the harness itself",
}
_COUNTS = {
    "judged": "Judged, by operation",
    "skipped": "Skipped operations, by reason",
    "skips": "Skipped operations, by name and reason",
    "lacking": "Operations that the target lacks",
    "relations": "Relations judged",
    "counters": "What the sequences met",
}
_LISTS = {
    "missing": "Missing",
    "lost": "Lost: the base release has it",
    "changed_rules": "Rules with other words than those of the base release",
    "fixes": "Fixes of known issues that were on",
    "fixes_without_effect": "Fixes that change nothing here",
    "fixes_without_form": "Fixes that cannot be switched on here",
}
SAID = (*_SETTINGS, *_AMOUNTS, *_COUNTS, *_LISTS)
"""Fields of summaries that a page shows as they are."""

SHOWN_OTHERWISE = (
    "findings",
    "faults",
    "regimes",
    "unjudged",
    "kernel_lines",
    "base",
    "uncompared",
    "edited",
    "standing",
)
"""Fields that a page shows in a form of their own."""


@dataclass(frozen=True)
class Table:
    """Names with a value each, under a title. `open`: it is not folded."""

    title: str
    rows: Sequence[tuple[str, str]]
    open: bool = False

    @property
    def counts(self) -> bool:
        """Whether the values are numbers."""
        return all(value.isdigit() for _, value in self.rows)


@dataclass(frozen=True)
class ByteRun:
    """One difference: what happened where, and the bytes before, expected and found, each with whether it is other than
    expected."""

    title: str
    rows: Sequence[tuple[str, Sequence[tuple[str, bool]]]]
    more: Sequence[str]


@dataclass(frozen=True)
class FindingPart:
    """One finding. `sentence` is what went wrong; `known` the known issue, empty if there is none, and `about` what
    it is; `not_counted` why it
    does not make status 1, empty if it does; `commands` show it again; `edits` are the edited lines of a
    checkout that it ran; `case` is what was run, in words; `unread` says why its file gives no evidence."""

    signature: str
    sentence: str
    seen: str
    known: str
    about: Sequence[str]
    not_counted: str
    diagnosis: str
    needs: str
    repro: str
    commands: Sequence[str]
    places: Sequence[tuple[str, str]]
    edits: str = ""
    differences: Sequence[ByteRun] = ()
    details: Sequence[str] = ()
    case: Sequence[Section] = ()
    picture: Picture | None = None
    unread: str = ""


@dataclass(frozen=True)
class FaultPart:
    """One fault: its simplest finding, the others, and what they share. `heading` is the title, or as much of it as a
    heading has room for."""

    anchor: str
    number: int
    title: str
    heading: str
    first: FindingPart
    others: Sequence[FindingPart]
    shared: str


@dataclass(frozen=True)
class CampaignPart:
    """One campaign. `tone` is `good`, `bad` or `warning`."""

    anchor: str
    title: str
    answer: str
    tone: str
    facts: Sequence[tuple[str, str]]
    tables: Sequence[Table]
    faults: Sequence[FaultPart]
    open: bool


@dataclass(frozen=True)
class Page:
    """All campaigns of one command."""

    campaigns: Sequence[CampaignPart] = field(default_factory=tuple)


def page_of(results: Sequence[Result]) -> Page:
    """The page of these results."""
    return Page([_campaign(number, result) for number, result in enumerate(results, 1)])


def _campaign(number: int, result: Result) -> CampaignPart:
    json = result.json
    faults = [_fault(number, at, fault, json) for at, fault in enumerate(_faults(json), 1)]
    status = json["exit_status"]
    tone = {NOTHING_FOUND: "good", FINDINGS: "bad"}.get(status, "warning")
    return CampaignPart(
        f"campaign-{number}",
        result.title,
        result.answer,
        tone,
        list(_facts(json)),
        list(_tables(json)),
        faults,
        len(faults) <= OPEN_FAULTS,
    )


def _faults(json: Json) -> Iterator[tuple[str, Sequence[int], Sequence[str]]]:
    """The title of each fault, the numbers of its findings and what they share; then findings that are in no fault."""
    named: set[int] = set()
    for fault in json["faults"]:
        named.update(fault["findings"])
        yield fault["title"], fault["findings"], fault["shared"]
    for number, finding in enumerate(json["findings"]):
        if number not in named:
            yield finding["summary"], [number], ()


def _facts(json: Json) -> Iterator[tuple[str, str]]:
    for name, words in (*_SETTINGS.items(), *_AMOUNTS.items()):
        if json.get(name) is not None and not (name == "in_this_part" and json[name] in _all_judged(json)):
            yield words, str(json[name])
    if json.get("base") is not None:
        yield "base release", f"vllm {json['base']['version']}"
    if json.get("uncompared"):
        yield "base release", "none is here to compare with"
    if json.get("edited") is not None:
        coverage = msgspec.convert(json["edited"], EditCoverage)
        yield from (("edits", line.text.strip()) for line in coverage.in_words(verbose=True))


def _all_judged(json: Json) -> tuple[object, ...]:
    """How many were judged in all: there is no other part if one judged so many."""
    return (json.get("cases"), json.get("sequences"))


def _tables(json: Json) -> Iterator[Table]:
    standing = list(standing_of(json).lines([finding["signature"] for finding in json["findings"]]))
    if standing:
        yield Table("In the light of what was known", [(line.word, line.text) for line in standing], open=True)
    for name, title in _LISTS.items():
        entries = json.get(name)
        if entries:
            yield Table(title, [(_in_a_line(entry), "") for entry in entries], name in ("missing", "lost"))
    for name, title in _COUNTS.items():
        counts: Mapping[str, object] = json.get(name) or {}
        if counts:
            yield Table(title, [(key, str(value)) for key, value in counts.items()], name in ("judged", "skipped"))
    regimes: Mapping[str, int] = json.get("regimes") or {}
    reached = [(name, str(count)) for name, count in regimes.items() if count]
    why: Mapping[str, str] = json.get("unjudged") or {}
    missed = [(name, why.get(name, "")) for name, count in regimes.items() if not count]
    if reached:
        yield Table(f"Regimes reached: {len(reached)} of {len(regimes)}", reached)
    if missed:
        yield Table(f"Regimes not reached: {len(missed)} of {len(regimes)}", missed)
    lines = json.get("kernel_lines") or ()
    if lines:
        yield Table("Lines of kernels that ran", [_of_kernel(one) for one in lines])
    changed = (json.get("base") or {}).get("changed") or ()
    if changed:
        yield Table("Files that differ from the base release", [(_in_a_line(one), "") for one in changed])


def _of_kernel(covered: Json) -> tuple[str, str]:
    rest = f"; not lines {', '.join(map(str, covered['missed']))}" if covered["missed"] else ""
    return (
        f"{covered['function']} ({covered['file']})",
        f"{covered['executed']} of {counted(covered['lines'], 'line')}{rest}",
    )


def _in_a_line(entry: object) -> str:
    """An entry of a list: a text, or an object of several."""
    if isinstance(entry, Mapping):
        return ", ".join(f"{name} {value}" for name, value in entry.items())
    return str(entry)


def _fault(campaign: int, number: int, fault: tuple[str, Sequence[int], Sequence[str]], json: Json) -> FaultPart:
    title, findings, shared = fault
    first, *others = (json["findings"][one] for one in findings)
    return FaultPart(
        f"fault-{campaign}-{number}",
        number,
        title,
        heading_of(title),
        _finding(first, json, pictured=number <= PICTURED_FAULTS),
        [_short(other, json) for other in others],
        "; ".join(shared),
    )


def heading_of(title: str) -> str:
    """A title in at most HEADING letters. A sentence of evidence says first what is wrong and where, and then which
    bytes or which code: the title is cut before the part for which there is no room, without dots. A known issue ends
    with where to read about it, which the page says below."""
    title = _REFERENCE.sub("", title)
    if len(title) <= HEADING:
        return title
    for mark in ("; ", ": "):
        head, found, _ = title[:HEADING].rpartition(mark)
        if found and len(head) >= HEADING // 4:
            return head
    return title[: HEADING - 3] + "..."


def _short(finding: Json, json: Json) -> FindingPart:
    """What the summary has of a finding."""
    known = issue_in_words(finding)
    settings = finding.get("settings")
    needs = "" if settings is None else f"needs {'; '.join(settings)}" if settings else "at default options"
    return FindingPart(
        signature=finding["signature"],
        sentence=finding["summary"],
        seen=_seen(finding),
        known=known,
        about=lines_about(finding["issue"]),
        not_counted=why_not_counted(json, finding) or "",
        diagnosis=finding["diagnosis"]["sentence"] if finding.get("diagnosis") else "",
        needs=needs,
        repro=finding["repro"] or "",
        commands=_commands(finding["repro"], json["target"]),
        places=[
            (f"{place['file']}:{place['line']}", f"{place['role']} in {place['function']}") for place in places(finding)
        ]
        + [(name, "is what a fix of it changes") for name in changed_by_a_fix(finding["issue"])],
        edits=edits_in_words(msgspec.convert(finding.get("edits") or [], list[EditedLines])),
    )


def _seen(finding: Json) -> str:
    noun = "case" if "cases" in finding else "sequence"
    number = finding[f"{noun}s"]
    domain = f"{finding['domain']} domain, " if "domain" in finding else ""
    return f"{domain}{counted(number, noun) if number else 'met while shrinking another'}"


def _commands(repro: str | None, target: str) -> list[str]:
    if repro is None:
        return []
    file = shlex.quote(repro)
    return [f"harness replay {file} -t {shlex.quote(target)}", f"harness show {file}"]


def _finding(finding: Json, json: Json, *, pictured: bool) -> FindingPart:
    """The same with the evidence of its file."""
    part = _short(finding, json)
    if finding["repro"] is None:
        return part
    try:
        _, repro = read_any(Path(finding["repro"]))
        case = _in_words(repro)
        picture = picture_of(repro) if pictured else None
    except InvalidCase as error:
        return replace(part, unread=str(error))
    evidence = repro.evidence
    summary = evidence.summary
    return replace(
        part,
        differences=[_byte_run(difference) for difference in evidence.differences],
        details=[detail for detail in dict.fromkeys(evidence.details) if detail != summary],
        places=part.places or [(f"{at.file}:{at.line}", f"{at.role} in {at.function}") for at in evidence.places],
        case=case,
        picture=picture,
    )


def _in_words(repro: AnyRepro) -> Sequence[Section]:
    """What was run."""
    match repro:
        case Repro():
            return case_in_words(repro.case)
        case SequenceRepro() | EngineRepro():
            return sequence_in_words(repro)
        case _:
            return ()


def _byte_run(difference: Difference) -> ByteRun:
    what = difference_in_words(difference.violation, unchanged=difference.found == difference.before)
    expected = difference.expected.split()
    rows = []
    for name in ("before", "expected", "found"):
        values = getattr(difference, name).split()
        marked = [name == "found" and expected[at : at + 1] != [value] for at, value in enumerate(values)]
        rows.append((name, list(zip(values, marked, strict=True))))
    shown = len(difference.found.split())
    part = f"the first {shown} of " if shown < difference.size else ""
    title = f"{difference.place}: {what}, {part}{counted(difference.size, 'byte')}"
    return ByteRun(title, rows, [text for text in (difference.contents, difference.writer) if text])
