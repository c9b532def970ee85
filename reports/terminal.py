"""The terminal report: what a user reads while a campaign runs, and at its end.

On a terminal a status line shows the progress; when piped, only permanent lines are printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.status import Status
from rich.text import Text

from harness.campaign.events import (
    CampaignFinished,
    CampaignStarted,
    CaseJudged,
    Event,
    FindingFound,
    FindingKept,
    Notice,
)
from harness.reports.console import ReportConsole
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


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines as the end of a campaign has them."""
    console = ReportConsole()
    for line in lines:
        console.print(_text(line))


def _text(line: Line) -> Text:
    style = _STYLES[line.tone]
    return Text.assemble((line.word, style), " ", line.text) if line.word else Text(line.text, style=style)


@contextmanager
def _report(verbose: bool) -> Iterator[Callable[[Event], None]]:
    console = ReportConsole()
    with console.status("loading the target") as status:
        yield _TerminalReport(console, status, verbose)


class _TerminalReport:
    def __init__(self, console: Console, status: Status, verbose: bool) -> None:
        self._console = console
        self._status = status
        self._verbose = verbose
        self._found = 0

    def __call__(self, event: Event) -> None:
        match event:
            case CampaignStarted():
                self._console.print(Text(event.title))
            case CaseJudged():
                rate = event.done_here / event.elapsed if event.elapsed > 0 else 0.0
                self._status.update(
                    f"{counted(event.done, event.noun)}, {rate:.0f} a second, {counted(self._found, 'finding')}"
                )
            case FindingFound():
                self._found += 1
                where = "met while shrinking another" if event.index is None else f"{event.noun} {event.index}"
                self._line("found", "bold red", f"{event.key.signature}, {where}")
                self._more(event.repro.evidence.summary)
                self._more(f"saved as {'met' if event.index is None else 'drawn'}: {event.path}", "dim")
            case FindingKept():
                self._kept(event)
            case Notice():
                self._line("note", "cyan", event.text)
                self._status.update(event.text)
            case CampaignFinished():
                self._status.stop()
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
