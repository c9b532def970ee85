"""JSON lines: what happens in a run, an event a line, written as it happens (docs/json.md).

A reader may follow the file while the run writes it. Each line says by `event` what it is; the last one is `over`, or
`broken off` where something ended the command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from harness.campaign.events import (
    CampaignFinished,
    CampaignStarted,
    CaseJudged,
    Event,
    FindingFound,
    FindingKept,
    Notice,
)
from harness.reports.written.result import broken_off


@contextmanager
def json_lines(path: Path) -> Iterator[Callable[[Event], None]]:
    """Write events to a new file. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb", buffering=0) as file:

        def write(name: str, fields: dict[str, Any]) -> None:
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            file.write(msgspec.json.encode({"event": name, "at": at, **fields}) + b"\n")

        try:
            yield lambda event: write(*line_of(event))
        except BaseException as error:
            result = broken_off(error)
            write("broken off", {"why": result.answer, "exit_status": result.json["exit_status"]})
            raise
        write("over", {})


def line_of(event: Event) -> tuple[str, dict[str, Any]]:
    """The name of an event, and what its line holds."""
    match event:
        case CampaignStarted():
            stats = event.stats()
            about = {name: getattr(stats, name) for name in ("subject", "noun", "target", "seed", "shard", "workers")}
            return "started", {"title": event.title, **about}
        case CaseJudged():
            entry = event.entry
            return "judged", {
                "noun": event.noun,
                "number": event.index,
                "count": event.done,
                "seconds": round(event.elapsed, 3),
                "skipped": entry.skipped,
                "signature": entry.signature,
                "issue": entry.issue,
            }
        case FindingFound():
            return "found", {
                "noun": event.noun,
                "signature": event.key.signature,
                "issue": event.key.issue,
                "number": event.index,
                "summary": event.repro.evidence.summary,
                "repro": str(event.path),
            }
        case FindingKept():
            shrink = event.repro.shrink
            return "kept", {
                "noun": event.noun,
                "signature": event.key.signature,
                "issue": event.key.issue,
                "count": event.count,
                "about": event.about,
                "found_as": None if event.found_as is None else event.found_as.signature,
                "executions": None if shrink is None else shrink.executions,
                "repro": str(event.path),
            }
        case Notice():
            return "notice", {"text": event.text}
        case CampaignFinished():
            return "finished", {"summary": event.summary}
