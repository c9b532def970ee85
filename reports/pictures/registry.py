"""Which picture is drawn of which repro file."""

from __future__ import annotations

from harness.reports.pictures.arena import arena
from harness.reports.pictures.picture import Picture
from harness.reports.pictures.streams import streams
from harness.reports.pictures.timeline import timeline
from harness.repro import AnyRepro, EngineRepro, Repro, SequenceRepro


def picture_of(repro: AnyRepro) -> Picture | None:
    """The picture of a finding; None if its file says nothing that can be drawn. Raises InvalidCase for a case that
    violates the preconditions of an operation."""
    picture: Picture | None = None
    if isinstance(repro, Repro):
        picture = arena(repro)
    elif isinstance(repro, SequenceRepro):
        picture = timeline(repro)
    elif isinstance(repro, EngineRepro):
        picture = streams(repro)
    return picture
