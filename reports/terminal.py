"""The terminal report: what a person at a keyboard reads while a campaign runs, and at its end.

On a terminal a status line follows the campaign; piped, only lines that stay are printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status
from rich.text import Text

from harness.campaign.events import (
    CampaignFinished,
    CampaignStarted,
    CaseJudged,
    Event,
    FindingFound,
    FindingShrunk,
    Notice,
    Summary,
)
from harness.reports.console import ReportConsole
from harness.reports.words import counted


@contextmanager
def terminal_report() -> Iterator[Callable[[Event], None]]:
    """Print events on standard output."""
    console = ReportConsole()
    with console.status("loading the target") as status:
        yield _TerminalReport(console, status)


SHOWN_MISSED = 8
"""Regimes not reached that are named; of a short run there are too many."""


class _TerminalReport:
    def __init__(self, console: Console, status: Status) -> None:
        self._console = console
        self._status = status
        self._found = 0

    def __call__(self, event: Event) -> None:
        match event:
            case CampaignStarted():
                self._start(event)
            case CaseJudged():
                rate = event.done / event.elapsed if event.elapsed > 0 else 0.0
                self._status.update(
                    f"{counted(event.done, 'case')}, {rate:.0f} a second, {counted(self._found, 'finding')}"
                )
            case FindingFound():
                self._found += 1
                self._line("found", "bold red", f"{event.signature}, {_where(event.repro.origin.index)}")
                self._console.print(Text(f"      {event.repro.evidence.summary}"))
                self._console.print(Text(f"      saved as drawn: {event.path}", style="dim"))
                self._status.update("shrinking")
            case FindingShrunk():
                record = event.repro.shrink
                took = f"{counted(record.executions, 'execution')}, {record.seconds:.1f} s" if record else ""
                self._line("shrunk", "bold yellow", f"{event.signature} ({took})")
                self._console.print(Text(f"      {event.path}"))
            case Notice():
                self._line("note", "cyan", event.text)
            case CampaignFinished():
                self._status.stop()
                self._finish(event.summary)

    def _line(self, word: str, style: str, text: str) -> None:
        self._console.print(Text.assemble((word, style), " ", text))

    def _start(self, event: CampaignStarted) -> None:
        recipe = event.recipe
        limit = counted(event.cases, "case") if event.cases is not None else f"{event.budget_seconds:g} s"
        self._console.print(
            Text(
                f"{event.target} on {event.executor}: seed {recipe.seed}, {' and '.join(recipe.domains)} domain, "
                f"{', '.join(recipe.operations)}, {limit}, {counted(event.workers, 'worker')}"
            )
        )

    def _finish(self, summary: Summary) -> None:
        judged = ", ".join(f"{count} {name}" for name, count in summary.judged.items())
        self._console.print(
            Text(
                f"{counted(summary.cases, 'case')} in {summary.seconds:.1f} s ({summary.cases_per_second:g} a second): "
                f"judged {judged}; {counted(summary.launches, 'launch', 'launches')}"
            )
        )
        if any(summary.relations.values()):
            asked = ", ".join(f"{count} {name}" for name, count in summary.relations.items() if count)
            self._console.print(Text(f"relations judged: {asked}"))
        reached = [name for name, count in summary.regimes.items() if count]
        missed = [name for name, count in summary.regimes.items() if not count]
        self._console.print(Text(f"regimes reached: {len(reached)} of {len(summary.regimes)}"))
        if missed:
            named = ", ".join(missed) if len(missed) <= SHOWN_MISSED else f"{len(missed)} others; --json counts each"
            self._console.print(Text(f"  not reached: {named}", style="dim"))
        for covered in summary.kernel_lines:
            rest = f"; not lines {', '.join(map(str, covered.missed))}" if covered.missed else ""
            text = (
                f"kernel {covered.function} ({covered.file}): {covered.executed} of {covered.lines} compiled lines ran"
            )
            self._console.print(Text(text + rest))
        for reason, count in summary.skipped.items():
            self._line("skipped", "yellow", f"{count}: {reason}")
        for finding in summary.findings:
            text = f"{finding.signature} ({finding.domain} domain, {_seen(finding.cases)}): {finding.repro}"
            self._line("finding", "bold red", text)
        for name, words in summary.lacking.items():
            self._line("skipped", "yellow", f"{name} altogether: {words}")
        for name in summary.missing:
            self._line("missing", "bold red", f"{name}: no case")
        if summary.harness_failures:
            text = f"the harness itself failed in {counted(summary.harness_failures, 'case')}: please report them"
            self._line("not judged", "bold red", text)
        if summary.exit_status == 0:  # a finding that could not be saved is not among the findings
            self._console.print(Text("nothing found", style="bold green"))


def _seen(cases: int) -> str:
    """How often a finding was seen: never as a drawn case, if only a smaller variant of another one showed it."""
    return counted(cases, "case") if cases else "met while shrinking another"


def _where(index: int | None) -> str:
    return "met while shrinking another" if index is None else f"case {index}"
