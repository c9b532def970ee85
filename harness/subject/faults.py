"""A fault of a summary is a group of findings that very likely have one cause: they share something that says so.

What they may share: a known issue; the type of an exception and the line that raised it; a diagnosis; the lines that a
wrong access, a race or a wrong store goes back to; or one was met only while another was shrunk. Lines alone do not
join findings that different deviations explain. The simplest finding of a group represents it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from harness.repro.format import AnyRepro
from harness.subject.subject import Kept, Key
from harness.subject.summary import Line
from harness.text import counted

BY_BYTES = "memory"
"""The oracle of wrong bytes; those of accesses, races and undefined numbers say what was done."""

SEVERAL = "several may be one fault seen from several sides: fix the first, then run again"
"""What an answer adds where several findings are new."""


class Facts(msgspec.Struct, frozen=True):
    """What is known of one finding. `about` says what its known issue is, if it has one. `met_in` is the number of the
    finding in whose shrinking it was met. `simple` orders findings: the smaller, the simpler."""

    repro: AnyRepro
    issue: str | None
    about: str
    simple: tuple[int, ...]
    met_in: int | None = None


class Fault(msgspec.Struct, frozen=True):
    """A group: what it is in a line, what its findings share (empty for a single one), and their numbers in the list of
    findings, the simplest first."""

    title: str
    shared: list[str]
    findings: list[int]


def grouped(facts: Sequence[Facts]) -> list[Fault]:
    """The faults behind findings, in the order of their first findings."""
    parents = list(range(len(facts)))
    shared: list[tuple[int, str]] = []

    def root(number: int) -> int:
        while parents[number] != number:
            number = parents[number]
        return number

    for number, one in enumerate(facts):
        for other in range(number):
            what = _shared(facts[other], one) or _met(number, other, facts)
            if what:
                shared.append((other, what))
                first, second = sorted((root(other), root(number)))
                parents[second] = first
    members: dict[int, list[int]] = {}
    for number in range(len(facts)):
        members.setdefault(root(number), []).append(number)
    faults = []
    for first, numbers in members.items():
        numbers.sort(key=lambda number: facts[number].simple)
        why = list(dict.fromkeys(what for member, what in shared if root(member) == first))
        faults.append(Fault(_title(facts[numbers[0]]), why, numbers))
    return faults


def _met(number: int, other: int, facts: Sequence[Facts]) -> str:
    return "met while shrinking" if facts[number].met_in == other or facts[other].met_in == number else ""


def _shared(one: Facts, other: Facts) -> str:
    """What two findings share, in words; empty if nothing says that they have one cause."""
    if one.issue is not None or other.issue is not None:
        return f"known issue {one.issue}" if one.issue == other.issue else ""
    first, second = one.repro.signature, other.repro.signature
    if "exception" in (first.oracle, second.oracle):
        place = _raised_at(one)
        same = first.violation == second.violation and place and place == _raised_at(other)
        return f"{first.violation} raised at {place}" if same else ""
    causes = _families(one) & _families(other)
    if causes:
        return f"diagnosis: {', '.join(sorted(causes))}"
    if _families(one) and _families(other):
        return ""
    lines = one.repro.evidence.places
    if lines and lines == other.repro.evidence.places and (first.oracle == BY_BYTES) == (second.oracle == BY_BYTES):
        return f"line {lines[0].file}:{lines[0].line}"
    return ""


def _raised_at(one: Facts) -> str:
    evidence = one.repro.evidence
    if evidence.places:
        return f"{evidence.places[0].file}:{evidence.places[0].line}"
    return evidence.details[0] if evidence.details else ""


def _families(one: Facts) -> set[str]:
    diagnosis = one.repro.evidence.diagnosis
    return set() if diagnosis is None else set(diagnosis.families)


def _title(one: Facts) -> str:
    """What a fault is called: a known issue, a diagnosis, or what was wrong."""
    evidence = one.repro.evidence
    if one.issue is not None:
        return one.about or one.issue
    if evidence.diagnosis is not None and evidence.diagnosis.deviations:
        return evidence.diagnosis.sentence
    return evidence.summary


def fault_lines(
    faults: Sequence[Fault], findings: Sequence[str], said: Sequence[Sequence[str]], edits: Sequence[str] = ()
) -> list[Line]:
    """A line for the simplest finding of each fault, with what is known of the fault under it, then the others;
    `findings` are their lines, `said` what went wrong in each (a sentence, and a diagnosis if there is one), and
    `edits` which edited lines they ran (empty: none, or it is not known). Findings that are in no fault come last."""
    lines: list[Line] = []
    for fault in faults:
        first, *others = fault.findings
        lines.append(Line("finding", findings[first], "bad"))
        known = [] if any(fault.title in text for text in said[first]) else [fault.title]
        lines += [Line("", f"  {text}") for text in (*known, *said[first])]
        ran = edits[first] if edits else ""
        if ran:
            lines.append(Line("", f"  {ran}"))
        if others:
            lines.append(
                Line("", f"  {counted(len(others), 'more finding')} of it ({'; '.join(fault.shared)}):", "dim")
            )
            for number in others:
                lines.append(Line("", f"    {findings[number]}", "dim"))
                if edits and edits[number] not in ("", ran):
                    lines.append(Line("", f"      {edits[number]}", "dim"))
    named = {number for fault in faults for number in fault.findings}
    lines += [Line("finding", text, "bad") for number, text in enumerate(findings) if number not in named]
    return lines


def next_lines(repro: str | None, target: str, again: str) -> list[Line]:
    """What to type after a finding: show its file, replay it, look again after an edit; nothing without a file."""
    if repro is None:
        return []
    commands = (f"harness show {repro}", f"harness replay {repro} -t {target}", again)
    return [Line("next", command) for command in commands]


def facts_of(
    findings: Sequence[tuple[Key, Kept]],
    issue: Callable[[Key, Kept], tuple[str | None, str]],
    size: Callable[[Kept], int],
) -> list[Facts]:
    """What grouping needs of findings: `issue` is the known issue that one is or looks like, with a line about it, and
    `size` the size of its case."""
    numbers = {key: number for number, (key, _) in enumerate(findings)}
    return [
        Facts(
            kept.repro,
            *issue(key, kept),
            (kept.repro.domain != "reachable", not kept.count, size(kept), number),
            None if kept.met is None else numbers.get(kept.met),
        )
        for number, (key, kept) in enumerate(findings)
    ]
