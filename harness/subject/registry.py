"""The registry of subjects: it maps the kind that a repro file names to a class, which is imported only when needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from harness.registry import found_at
from harness.repro import AnyRepro, read_any
from harness.repro.format import REPRO_TYPES
from harness.subject.subject import Subject

AnySubject = Subject[Any, Any]

_SUBJECTS = {
    "case": "harness.kernel_cases.subject:KernelCases",
    "sequence": "harness.sequences.subject:StepSequences",
    "engine": "harness.end_to_end.subject:WholeEngines",
}


def subject_class(kind: str) -> type[AnySubject]:
    """The subject whose files are of a kind. Raises KeyError for an unknown kind."""
    return cast(type[AnySubject], found_at(_SUBJECTS[kind]))


def subject_classes() -> list[type[AnySubject]]:
    """All subjects."""
    return [subject_class(kind) for kind in _SUBJECTS]


def register(kind: str, place: str, repro_type: type[AnyRepro]) -> None:
    """Add a subject: the kind of its files, the place of its class (`module:Class`), and the format of its files."""
    _SUBJECTS[kind] = place
    REPRO_TYPES[kind] = repro_type


def read_file(path: Path) -> tuple[type[AnySubject], AnyRepro]:
    """The subject of a repro file, and what it holds. Raises InvalidCase, with one line."""
    kind, repro = read_any(path)
    return subject_class(kind), repro
