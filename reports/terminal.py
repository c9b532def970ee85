"""The terminal report: what a person at a keyboard reads while a campaign runs, and at its end.

On a terminal a status line follows the campaign; piped, only lines that stay are printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
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
    FindingShrunk,
    Notice,
    Summary,
)
from harness.reports.console import ReportConsole
from harness.reports.words import counted


def terminal_report() -> AbstractContextManager[Callable[[Event], None]]:
    """Print events on standard output."""
    return _report(verbose=False)


def verbose_report() -> AbstractContextManager[Callable[[Event], None]]:
    """The same, with the names of what was not reached: regimes, and lines of each kernel."""
    return _report(verbose=True)


@contextmanager
def _report(verbose: bool) -> Iterator[Callable[[Event], None]]:
    console = ReportConsole()
    with console.status("loading the target") as status:
        yield _TerminalReport(console, status, verbose)


MISSED = 3
"""Exit status if something required was not reached."""


class _TerminalReport:
    def __init__(self, console: Console, status: Status, verbose: bool) -> None:
        self._console = console
        self._status = status
        self._verbose = verbose
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
                was = f", found as {event.found_as}: findings that end alike are one" if event.found_as else ""
                self._line("shrunk", "bold yellow", f"{event.signature} ({took}){was}")
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
        self._tell_coverage(summary)
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
        self._answer(summary)

    def _tell_coverage(self, summary: Summary) -> None:
        """One line; verbose, what was not reached as well."""
        missed = [name for name, count in summary.regimes.items() if not count]
        parts = [f"{len(summary.regimes) - len(missed)} of {counted(len(summary.regimes), 'regime')}"]
        lines = sum(covered.lines for covered in summary.kernel_lines)
        if lines:
            ran = sum(covered.executed for covered in summary.kernel_lines)
            parts.append(f"{ran} of {counted(lines, 'compiled kernel line')}")
        hint = "" if self._verbose else " (--verbose names the others)"
        self._console.print(Text(f"reached {', '.join(parts)}{hint}"))
        if not self._verbose:
            return
        if missed:
            self._console.print(Text(f"  regimes not reached: {', '.join(missed)}", style="dim"))
        for covered in summary.kernel_lines:
            rest = f"; not lines {', '.join(map(str, covered.missed))}" if covered.missed else ""
            ran_here = f"{covered.executed} of {counted(covered.lines, 'line')} ran"
            self._console.print(Text(f"  kernel {covered.function} ({covered.file}): {ran_here}{rest}", style="dim"))

    def _answer(self, summary: Summary) -> None:
        """The last line. A finding that could not be saved is not among the findings, yet no reason to say nothing."""
        if summary.findings:
            by_operation = Counter(finding.signature.partition("/")[0] for finding in summary.findings)
            named = ", ".join(f"{count} of {name}" for name, count in by_operation.items())
            text = f"{counted(len(summary.findings), 'finding')}: {named}"
            if len(summary.findings) > 1:
                text += "; several may be one fault seen from several sides: mend the first, then run again"
            self._console.print(Text(text, style="bold red"))
        elif summary.exit_status == 0:
            self._console.print(Text("nothing found", style="bold green"))
        elif summary.harness_failures:
            text = "nothing found in what could be judged; the harness itself failed in the rest (status 4)"
            self._console.print(Text(text, style="bold red"))
        elif summary.missing and summary.exit_status == MISSED:
            text = "nothing found, but what is missing was required (status 3): a longer run may reach it"
            self._console.print(Text(text, style="bold red"))


def _seen(cases: int) -> str:
    """How often a finding was seen: never as a drawn case, if only a smaller variant of another one showed it."""
    return counted(cases, "case") if cases else "met while shrinking another"


def _where(index: int | None) -> str:
    return "met while shrinking another" if index is None else f"case {index}"
