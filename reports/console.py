"""The console prints human-readable reports to standard output, without interpreting them.

The printed text comes from repro files and from targets. Square brackets in it are not markup, and control characters,
which could control the terminal, are shown as a question mark.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

_SHOWN_AS = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], "?")
for _kept in "\n\t":
    del _SHOWN_AS[ord(_kept)]


def printable(text: str) -> str:
    """`text` without control characters, except line ends."""
    return text.translate(_SHOWN_AS)


class ReportConsole(Console):
    """A rich console without markup. Raises BrokenPipeError if no reader of standard output is left."""

    def __init__(self) -> None:
        super().__init__(highlight=False, soft_wrap=True, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments of `renderable`; segments with text have no control characters."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Pass the error on: rich would end the process with status 1, which means findings here."""
        raise BrokenPipeError
