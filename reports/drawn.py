"""Pictures at a terminal, as wide as it is."""

from __future__ import annotations

from rich.text import Text

from harness.reports.console import ReportConsole
from harness.reports.pictures.plain_text import plain_text
from harness.reports.pictures.registry import picture_of
from harness.repro import AnyRepro


def print_picture(repro: AnyRepro) -> None:
    """Print the picture of a finding, if there is one. Raises InvalidCase."""
    picture = picture_of(repro)
    if picture is None:
        return
    console = ReportConsole()
    console.print(Text("\nPicture", style="bold"))
    for line in plain_text(picture, console.width)[1:]:  # without the empty line between panels
        console.print(Text(line))
