"""The JSON summary, for machines: one object on standard output when the campaign is over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from harness.campaign.events import CampaignFinished, Event, Notice
from harness.reports.console import printable


@contextmanager
def json_report() -> Iterator[Callable[[Event], None]]:
    """Notices go to standard error, so that standard output holds only the object."""

    def handle(event: Event) -> None:
        if isinstance(event, Notice):
            print(printable(f"harness: {event.text}"), file=sys.stderr)
        elif isinstance(event, CampaignFinished):
            print(msgspec.json.encode(event.summary).decode(), flush=True)

    yield handle
