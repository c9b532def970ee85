"""A listing shows names and their descriptions, in two columns that fit the terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Mapping

NARROWEST = 30
"""Minimum width of the right side, in characters."""


def print_listing(entries: Mapping[str, str]) -> None:
    """Print one entry a line, wrapped at the terminal's width (COLUMNS), but not in a pipe, for `grep`."""
    columns, _ = shutil.get_terminal_size(fallback=(0, 0))
    margin = " " * (max(map(len, entries), default=0) + 4)
    for name, summary in entries.items():
        start = f"  {name}".ljust(len(margin))
        if columns:
            width = max(columns, len(margin) + NARROWEST)
            text = textwrap.fill(summary, width, initial_indent=start, subsequent_indent=margin, break_on_hyphens=False)
            print(text if summary else start.rstrip())
        else:
            print(f"{start}{summary}".rstrip())
