"""The registry of reports: a report is a handler of campaign events, and one line here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import cast

from harness.campaign.events import Event

Handler = Callable[[Event], None]

_REPORTS = {
    "terminal": "harness.reports.terminal:terminal_report",
    "verbose": "harness.reports.terminal:verbose_report",
    "json": "harness.reports.json_summary:json_report",
}


def reporter(name: str) -> AbstractContextManager[Handler]:
    """A report, to be entered for the length of a campaign."""
    module, _, function = _REPORTS[name].partition(":")
    make = getattr(importlib.import_module(module), function)
    return cast(AbstractContextManager[Handler], make())
