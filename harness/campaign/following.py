"""Following a campaign: its events are given to a handler, and Ctrl-C leads to its summary wherever it comes."""

from __future__ import annotations

from collections.abc import Callable

from harness.campaign.campaign import Campaign
from harness.campaign.events import Event
from harness.interruption import INTERRUPTION


def follow(campaign: Campaign, handle: Callable[[Event], None]) -> None:
    """Run a campaign. Raises what `Campaign.run` raises; KeyboardInterrupt comes after CampaignFinished if there was
    something to sum up."""
    events = campaign.run()
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            event = next(events) if interrupt is None else events.throw(interrupt)
        except StopIteration:
            return
        interrupt = None
        try:
            handle(event)
        except KeyboardInterrupt as came:  # while an event was handled: the campaign does not know of it yet
            if INTERRUPTION.at_once:
                events.close()
                raise
            interrupt = came
