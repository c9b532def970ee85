"""A human-readable sequence repro: what it showed, the engine's configuration, and what happens to the engine.

docs/sequences.md explains the names that are printed here.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from harness.case.production_defaults import settings_in_words
from harness.case.sequence import CONTINUATION, Event, Segment
from harness.issues.registry import DEFAULT_FIXES, current_name, lines_about
from harness.reports.console import printable
from harness.reports.section import Section
from harness.repro import EngineRepro, SequenceRepro
from harness.subject.edits import edits_in_words
from harness.subject.subject import Replayed
from harness.text import counted

OfSequence = SequenceRepro | EngineRepro

_ALWAYS = ("repeat", "mode")
"""Fields that are printed even if they have their default."""


def print_sequence(file: Path, repro: OfSequence) -> None:
    """Print what a reader of a bug report wants to know first."""
    for line in _lines(file, repro):
        print(printable(line))


def print_replayed_sequence(file: Path, repro: OfSequence, result: Replayed) -> None:
    """Print FAILED / FIXED / SKIPPED on the first line, then the reason."""
    another = "" if result.same or result.answer != "FAILED" else " (another signature)"
    print(printable(f"{result.answer}{another}: {file} on {result.target}\n  {result.summary}"))
    if result.edits:
        print(printable(f"  {edits_in_words(result.edits)}"))


def _lines(file: Path, repro: OfSequence) -> list[str]:
    issue = f" [{repro.issue}]" if repro.issue else ""
    lines = [f"{file}: {repro.signature}, found on {repro.origin.target}{issue}"]
    lines += [f"  {line}" for line in lines_about(repro.issue)]
    if repro.settings is not None:
        lines += [f"  {settings_in_words(repro.sequence, repro.settings)}"]
    lines += [f"  {repro.evidence.summary}"]
    lines += [f"    {detail}" for detail in repro.evidence.details]
    configuration, events = sequence_in_words(repro)
    lines.append(f"{configuration.title} (docs/sequences.md says what each line means)")
    lines += [f"  {line}" for line in configuration.lines]
    if repro.fixes or repro.faults:
        fixes, faults = _fixes(repro), ", ".join(repro.faults) or "none"
        lines.append(f"Switched: fixes {fixes}; planted faults {faults}")
    lines.append(events.title)
    lines += [f"  {line}" for line in events.lines]
    return lines


def sequence_in_words(repro: OfSequence) -> tuple[Section, Section]:
    """The engine's configuration, and the events."""
    config, events = repro.sequence.config, repro.sequence.events
    return (
        Section("Configuration", [f"{name:24} {getattr(config, name)}" for name in config.__struct_fields__]),
        Section(
            f"Events ({len(events)}, {counted(repro.sequence.steps, 'step')})",
            [f"{number:3} {event_in_words(event)}" for number, event in enumerate(events)],
        ),
    )


def _fixes(repro: OfSequence) -> str:
    """Known issues that are patched out in its replay, or the others if those are fewer."""
    on = list(dict.fromkeys(map(current_name, repro.fixes)))
    off = [name for name in DEFAULT_FIXES if name not in on]
    if on and len(off) < len(on) and set(on) <= set(DEFAULT_FIXES):
        return f"of all known issues but {', '.join(off)}" if off else "of all known issues"
    return ", ".join(on) or "none"


def event_in_words(event: Event) -> str:
    """One line: the kind of event, and each field with a value that matters."""
    fields = []
    for field in msgspec.structs.fields(event):
        value = getattr(event, field.name)
        if field.required or field.name in _ALWAYS or value != field.default:
            fields.append(_field_in_words(field.name, value))
    return f"{type(event).__name__.lower():7} {', '.join(fields)}".rstrip()


def _field_in_words(name: str, value: object) -> str:
    if value is True:
        return name
    if not isinstance(value, tuple):
        return f"{name} {value}"
    parts = [_segment_in_words(part) if isinstance(part, Segment) else str(part) for part in value]
    return f"{name} [{', '.join(parts)}]"


def _segment_in_words(segment: Segment) -> str:
    if segment.family == CONTINUATION:
        return f"{segment.length} as the model continues"
    return f"{segment.length} of text {segment.family}"
