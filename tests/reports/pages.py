"""Pages of the HTML report as tests read them, and results to make them of."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from harness.check.outcome import CodePlace, Diagnosis, Difference, Evidence, Signature
from harness.kernel_cases.summary import Finding
from harness.reports.written.result import Result, result_of
from harness.repro import Repro, read_any
from harness.repro.store import write_repro
from harness.sequences.summary import SequenceFinding
from harness.subject.faults import Fault
from tests.summaries import case_summary, engine_summary, sequence_summary

VOID = {"meta", "link", "br"}


@dataclass
class Element:
    """One element: its tag, attributes and all text in it."""

    tag: str
    attributes: dict[str, str | None]
    text: str = ""


@dataclass
class PageReader(HTMLParser):
    """Reads a page; `open` has to be empty at the end: everything is closed."""

    elements: list[Element] = field(default_factory=list)
    open: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data

    def all(self, tag: str) -> list[Element]:
        return [element for element in self.elements if element.tag == tag]


def read(text: str) -> PageReader:
    """The page, which has to be well formed."""
    reader = PageReader()
    reader.feed(text)
    reader.close()
    assert not reader.open
    return reader


def evidence(words: str = "that") -> Evidence:
    """Evidence with everything that it can have."""
    difference = Difference(
        "wrong-bytes", "conv", f"block 2, {words}", 8208, 4, "00 00", "01 02", "01 03", f"written by {words}", words
    )
    diagnosis = Diagnosis((words,), f"as if {words}", 3, (words,))
    place = CodePlace(f"vllm/{words}.py", 157, words, "store")
    return Evidence(f"this is {words}", (difference,), 4, (f"detail of {words}",), (place,), diagnosis)


def saved(repro: Repro, folder: Path, words: str = "that", name: str = "one.json") -> str:
    """A file of a finding, with evidence of these words; its path."""
    changed = Repro(
        signature=Signature("precopy", "memory", "wrong-bytes", "conv", "SD"),
        evidence=evidence(words),
        origin=repro.origin,
        case=repro.case,
    )
    write_repro(folder / name, changed)
    return str(folder / name)


def findings_of(files: list[str | None], words: str) -> list[Finding]:
    """A finding for each file, whose texts are these words; every other one is a known issue."""
    return [
        Finding(
            f"precopy/exception/{words}/conv/SD",
            f"summary of {words}",
            "reachable",
            number,
            2,
            file,
            None,
            issue=words if number % 2 else None,
            diagnosis=Diagnosis((words,), f"as if {words}", 3),
            places=[CodePlace(f"vllm/{words}.py", 157, words, "store")],
        )
        for number, file in enumerate(files)
    ]


def result(files: list[str | None], words: str = "that", **changes: Any) -> Result:
    """A result with a fault for each file, whose texts are these words."""
    given: dict[str, Any] = {
        "target": words,
        "executor": words,
        "ended_early": words,
        "judged": {words: 4},
        "skipped": {words: 1},
        "skips": {words: 1},
        "lacking": {words: words},
        "regimes": {words: 3, f"not {words}": 0},
        "unjudged": {f"not {words}": words},
        "missing": [words],
        "findings": findings_of(files, words),
        "faults": [Fault(f"{number} {words}", [words], [number]) for number in range(len(files))],
        "exit_status": 1,
    }
    return result_of(case_summary(**{**given, **changes}))


KINDS = {
    "bytes": "tests/harness/repro/data/wrong-group-minimal.json",
    "access": "tests/harness/repro/data/temporal-size-minimal.json",
    "race": "corpus/shift-within-block-ds.json",
    "sequence": "corpus/sequences/copy-of-fresh-block.json",
    "engine": "tests/harness/end_to_end/data/engine-copy-of-fresh-block.json",
}
"""A file for each kind of finding that is drawn in a way of its own."""


def results_of_all_kinds(root: Path) -> list[Result]:
    """A result of kernels, of step sequences and of whole engines, with a real finding of each kind."""
    files = {name: root / path for name, path in KINDS.items()}
    repros = {name: read_any(path)[1] for name, path in files.items()}
    kernels = [name for name in KINDS if name not in ("sequence", "engine")]
    found = [
        Finding(
            str(repros[name].signature),
            repros[name].evidence.summary,
            "reachable",
            number,
            3,
            str(files[name]),
            None,
            diagnosis=repros[name].evidence.diagnosis,
            places=list(repros[name].evidence.places),
        )
        for number, name in enumerate(kernels)
    ]
    faults = [Fault(finding.summary, [], [number]) for number, finding in enumerate(found)]
    given: dict[str, Any] = {"judged": {"postprocess": 812, "precopy": 790}, "skipped": {"outside-contract": 31}}
    given |= {"regimes": {"decode": 700, "prefix-hit": 41, "layout-ds": 0}, "unjudged": {"layout-ds": "no code"}}
    summary = case_summary(cases=1633, cases_judged=1602, findings=found, faults=faults, exit_status=1, **given)
    after: list[Any] = []
    for name, one in (("sequence", sequence_summary), ("engine", engine_summary)):
        evidence = repros[name].evidence
        like = SequenceFinding(
            str(repros[name].signature), "copy-of-fresh-block", evidence.summary, 4, 2, 13, str(files[name]), True
        )
        ended = one([like])
        ended.faults = [Fault("copy-of-fresh-block", [], [0])]
        after.append(ended)
    return [result_of(one) for one in (summary, *after)]
