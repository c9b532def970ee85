"""Which picture is drawn of which repro file."""

from __future__ import annotations

import msgspec

from harness.check.outcome import Evidence
from harness.reports.pictures.arena import arena
from harness.reports.pictures.picture import Picture
from harness.reports.pictures.streams import streams
from harness.reports.pictures.timeline import timeline
from harness.repro import AnyRepro, EngineRepro, Repro, SequenceRepro

MOST_LETTERS = 4096
"""Of each sentence of evidence: more than any has, and few enough where somebody wrote the file."""


def picture_of(repro: AnyRepro) -> Picture | None:
    """The picture of a finding; None if its file says nothing that can be drawn. Raises InvalidCase for a case that
    violates the preconditions of an operation."""
    if isinstance(repro, Repro):
        return arena(msgspec.structs.replace(repro, evidence=_cut(repro.evidence)))
    if isinstance(repro, SequenceRepro):
        return timeline(msgspec.structs.replace(repro, evidence=_cut(repro.evidence)))
    if isinstance(repro, EngineRepro):
        return streams(msgspec.structs.replace(repro, evidence=_cut(repro.evidence)))
    return None


def _cut(evidence: Evidence) -> Evidence:
    details = tuple(detail[:MOST_LETTERS] for detail in evidence.details)
    return msgspec.structs.replace(evidence, summary=evidence.summary[:MOST_LETTERS], details=details)
