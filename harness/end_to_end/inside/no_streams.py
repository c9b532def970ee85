"""Streams and events of a device that does everything at once: nothing is ever in flight, so waiting is nothing."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from harness.end_to_end.inside.replacing import Replacer


class NoStream:
    """Takes the place of a stream, and of an event."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = torch.device("cpu")

    def wait_stream(self, stream: Any) -> None:
        """Whatever was on it is done."""

    def wait_event(self, event: Any) -> None:
        """It has happened."""

    def record(self, stream: Any = None) -> None:
        """All before it is done."""

    def synchronize(self) -> None:
        """It has happened."""

    def query(self) -> bool:
        """Whether it has happened."""
        return True


def without_streams(replacer: Replacer) -> None:
    """Replace those of torch.cuda, which a CPU build of torch refuses to make."""
    why = "there is no GPU"
    by = "one that does everything at once"
    replacer.attribute(torch.cuda, "Stream", NoStream, by, why)
    replacer.attribute(torch.cuda, "Event", NoStream, by, why)
    replacer.attribute(torch.cuda, "current_stream", lambda device=None: NoStream(), by, why)
    replacer.attribute(torch.cuda, "stream", contextlib.nullcontext, by, why)
