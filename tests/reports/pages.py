"""Pages of the HTML report as tests read them, and results to make them of."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from harness.check.outcome import CodePlace, Diagnosis, Difference, Evidence, Signature
from harness.kernel_cases.summary import Finding
from harness.reports.written.result import Result, result_of
from harness.repro import Repro
from harness.repro.store import write_repro
from harness.subject.faults import Fault
from tests.summaries import case_summary

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
