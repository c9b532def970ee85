"""The result of a sweep: human-readable (a table), for a bug report (Markdown), and for machines (JSON)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.text import Text

from harness.reports.console import ReportConsole
from harness.sweep.affected import NOT_AFFECTED, TargetAnswer, in_words
from harness.sweep.sweep import Swept

_STYLE = {
    "FAILED": "bold red",
    "FIXED": "bold green",
    NOT_AFFECTED: "green",
    "NOT APPLICABLE": "yellow",
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


def markdown(swept: Sequence[Swept]) -> str:
    """One table for all files, with a row for each and a column for each target; then the ranges."""
    targets = [answer.target for answer in swept[0].answers]
    lines = [
        f"| finding | domain | {' | '.join(target.removeprefix('vllm==') for target in targets)} |",
        f"|---|---|{'---|' * len(targets)}",
    ]
    for result in swept:
        cells = " | ".join(_cell(answer, result.answers) for answer in result.answers)
        lines.append(f"| {_escaped(result.title)} | {result.domain} | {cells} |")
    lines.append("")
    lines += [f"- {_escaped(result.title)} (`{result.file}`): {_escaped(result.affected)}" for result in swept]
    return "\n".join(lines)


def json_text(swept: Sequence[Swept], exit_status: int) -> str:
    """The result as one JSON object."""
    return msgspec.json.encode({"findings": msgspec.to_builtins(list(swept)), "exit_status": exit_status}).decode()


def _note(answer: TargetAnswer) -> str:
    if answer.answer == "FAILED" and not answer.same:
        return f"with another signature, {answer.signature}: {answer.detail}"
    return answer.detail


def _cell(answer: TargetAnswer, answers: Sequence[TargetAnswer]) -> str:
    if answer.answer == "NOT APPLICABLE":
        return "-"
    return "FAILED (other)" if answer.answer == "FAILED" and not answer.same else in_words(answer, answers)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
