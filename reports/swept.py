"""The result of a sweep: human-readable (a table), for a bug report (Markdown), and for machines (JSON)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.text import Text

from harness.reports.console import ReportConsole
from harness.sweep.affected import (
    NOT_AFFECTED,
    PASSES,
    TargetAnswer,
    at_default_options,
    in_words,
    with_default_runner,
)
from harness.sweep.sweep import Swept

_STYLE = {
    "FAILED": "bold red",
    "FIXED": "bold green",
    NOT_AFFECTED: "green",
    PASSES: "green",
    "NOT APPLICABLE": "yellow",
    "LOST": "bold magenta",
    "ERROR": "bold magenta",
    "NOT ASKED": "dim",
}


def print_table(swept: Sequence[Swept]) -> None:
    """Print a line for each target under its file, and the range below."""
    console = ReportConsole()
    for number, result in enumerate(swept):
        if number:
            console.print()
        console.print(Text.assemble((result.title, "bold"), f"  {result.file} ({result.domain} domain)"))
        width = max(len(answer.target) for answer in result.answers)
        for answer in result.answers:
            line = Text(f"  {answer.target:{width}}  ")
            word = in_words(answer, result.answers)
            line.append(f"{word:14}", style=_STYLE[word])
            line.append(f"  {_note(answer)}" if _note(answer) else "")
            line.rstrip()
            console.print(line)
        console.print(Text(result.affected, style="bold"))
        if _has_settings(result):
            console.print(f"On the default runner of {with_default_runner(result.answers)}; ", end="")
            console.print(f"at default options of {at_default_options(result.answers)}.")


def markdown(swept: Sequence[Swept]) -> str:
    """One table for all files, with a row for each and a column for each target; then the ranges. Of step sequences,
    two columns say where they fail for users who set nothing."""
    targets = [answer.target.removeprefix("vllm==") for answer in swept[0].answers]
    more = ["default runner in", "default options in"] if any(map(_has_settings, swept)) else []
    head = ["finding", "domain", *targets, *more]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for result in swept:
        cells = [_cell(answer, result.answers) for answer in result.answers]
        if more:
            answers = result.answers
            cells += [
                where.replace("vllm ", "") for where in (with_default_runner(answers), at_default_options(answers))
            ]
        lines.append(f"| {_escaped(result.title)} | {result.domain} | {' | '.join(cells)} |")
    lines.append("")
    lines += [f"- {_escaped(result.title)} (`{result.file}`): {_escaped(result.affected)}" for result in swept]
    return "\n".join(lines)


def json_text(swept: Sequence[Swept], exit_status: int) -> str:
    """The result as one JSON object."""
    return msgspec.json.encode({"findings": msgspec.to_builtins(list(swept)), "exit_status": exit_status}).decode()


def _has_settings(result: Swept) -> bool:
    return any(answer.settings is not None for answer in result.answers)


def _note(answer: TargetAnswer) -> str:
    if answer.answer == "FAILED" and not answer.same:
        return f"with another signature, {answer.signature}: {answer.detail}"
    if answer.answer == "FIXED" and answer.varied is not None:
        return f"these events do not fail here{f', nor {answer.varied} variations' if answer.varied else ''}"
    if answer.settings is not None:
        needs = f"needs {'; '.join(answer.settings)}" if answer.settings else "at default options"
        changed = f"with {answer.variation}: " if answer.variation is not None else ""
        return f"{changed}{answer.detail} [{needs}]"
    return answer.detail


def _cell(answer: TargetAnswer, answers: Sequence[TargetAnswer]) -> str:
    if answer.answer == "NOT APPLICABLE":
        return "-"
    if answer.answer == "FAILED" and answer.variation is not None:
        return "FAILED (varied)"
    return "FAILED (other)" if answer.answer == "FAILED" and not answer.same else in_words(answer, answers)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
