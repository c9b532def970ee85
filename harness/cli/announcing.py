"""Announcements report on standard error why something takes long: a line, and on a terminal also a bar."""

from __future__ import annotations

import sys

from harness.reports.console import printable


class Announcer:
    """Satisfies harness.kernels.targets.downloading.ShowsProgress."""

    def __init__(self) -> None:
        self._drawn = False

    def __call__(self, text: str) -> None:
        self._end_bar()
        print(printable(f"harness: {text}"), file=sys.stderr, flush=True)

    def progress(self, done: int, total: int | None) -> None:
        """Redraw the bar, on a terminal; it disappears when the download is complete."""
        if not sys.stderr.isatty():
            return
        self._drawn = True
        if total is None:
            bar, share = "", ""
        else:
            part = min(1.0, done / max(total, 1))
            bar = f" [{'#' * int(part * 30):30}]"
            share = f" of {total / 1e6:.0f}"
        print(f"\r\x1b[K{bar} {done / 1e6:.0f}{share} MB", end="", file=sys.stderr, flush=True)
        if done == total:
            self._end_bar()

    def _end_bar(self) -> None:
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        self._drawn = False
