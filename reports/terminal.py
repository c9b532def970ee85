"""The terminal report: what a user reads while a campaign runs, and at its end.

On a terminal a live view shows the progress (harness.reports.live); else, and where plain lines are asked for, only
lines that stay are printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.text import Text

from harness.campaign.events import (
    CampaignFinished,
    CampaignStarted,
    Event,
    FindingFound,
    FindingKept,
    Notice,
)
from harness.interruption import INTERRUPTION
from harness.reports.console import ReportConsole
from harness.reports.live import LiveView, is_live
from harness.subject.summary import Line, Tone
from harness.text import counted

_STYLES: dict[Tone, str] = {
    "plain": "",
    "good": "bold green",
    "warning": "yellow",
    "bad": "bold red",
    "dim": "dim",
}


def terminal_report() -> AbstractContextManager[Callable[[Event], None]]:
    """Print events on standard output."""
    return _report(verbose=False)


def verbose_report() -> AbstractContextManager[Callable[[Event], None]]:
    """The same, and the names of what was not reached."""
    return _report(verbose=True)


def plain_report() -> AbstractContextManager[Callable[[Event], None]]:
    """Lines that stay, on a terminal too."""
    return _report(verbose=False, plain=True)


def plain_verbose_report() -> AbstractContextManager[Callable[[Event], None]]:
    """The same, and the names of what was not reached."""
    return _report(verbose=True, plain=True)


def shows_progress(report: str) -> bool:
    """Whether the report with this name draws a live view here."""
    return report in ("terminal", "verbose") and is_live(ReportConsole())


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines as the end of a campaign has them."""
    console = ReportConsole()
    for line in lines:
        console.print(_text(line))


def _text(line: Line) -> Text:
    style = _STYLES[line.tone]
    return Text.assemble((line.word, style), " ", line.text) if line.word else Text(line.text, style=style)


@contextmanager
def _report(*, verbose: bool, plain: bool = False) -> Iterator[Callable[[Event], None]]:
    console = ReportConsole()
    if plain or not is_live(console):
        yield _TerminalReport(console, None, verbose)
        return
    view = LiveView(console)
    try:
        view.start()
        yield _TerminalReport(console, view, verbose)
    finally:
        view.stop()


class _TerminalReport:
    def __init__(self, console: Console, view: LiveView | None, verbose: bool) -> None:
        self._console = console
        self._view = view
        self._verbose = verbose

    def __call__(self, event: Event) -> None:
        with INTERRUPTION.postponed():  # of a torn line the live view would leave a part behind
            self._print_event(event)

    def _print_event(self, event: Event) -> None:
        match event:
            case CampaignStarted():
                self._console.print(Text(event.title))
                if self._view is not None:
                    self._view.start()  # the campaign of an earlier target ended it
                    self._view.follow(event.stats)
            case FindingFound():
                where = "met while shrinking another" if event.index is None else f"{event.noun} {event.index}"
                self._line("found", "bold red", f"{event.key.signature}, {where}")
                self._more(event.repro.evidence.summary)
                self._more(f"saved as {'met' if event.index is None else 'drawn'}: {event.path}", "dim")
            case FindingKept():
                self._kept(event)
            case Notice():
                self._line("note", "cyan", event.text)
                if self._view is not None:
                    self._view.say(event.text)
            case CampaignFinished():
                if self._view is not None:
                    self._view.stop()
                for line in event.summary.lines(verbose=self._verbose):
                    self._print(line)
                answer = event.summary.answer()
                if answer is not None:
                    self._print(answer)

    def _kept(self, event: FindingKept) -> None:
        record = event.repro.shrink
        took = f" ({counted(record.executions, 'execution')}, {record.seconds:.1f} s)" if record else ""
        was = f", the smallest form of {event.found_as.signature}" if event.found_as else ""
        self._line("shrunk" if record else "kept", "bold yellow", f"{event.key}{took}{was}")
        for about in event.about:
            self._more(about)
        diagnosis = event.repro.evidence.diagnosis
        if diagnosis is not None:
            self._more(f"diagnosis: {diagnosis.sentence}")
        self._more(str(event.path))

    def _more(self, text: str, style: str = "") -> None:
        self._console.print(Text(f"      {text}", style=style))

    def _print(self, line: Line) -> None:
        self._console.print(_text(line))

    def _line(self, word: str, style: str, text: str) -> None:
        self._console.print(Text.assemble((word, style), " ", text))
