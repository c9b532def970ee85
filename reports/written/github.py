"""GitHub: findings as annotations on the lines of a change, and a summary on the page of the job.

An annotation is a workflow command on standard error, which the runner of a job reads as it does standard output. The
summary is Markdown in the file that `GITHUB_STEP_SUMMARY` names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.refusal import Refusal
from harness.reports.written.result import (
    Json,
    Result,
    about,
    faults,
    is_known,
    places,
    plain,
    standing_of,
    why_not_counted,
)
from harness.text import counted

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"


def require_job() -> None:
    """Raises Refusal where no job of GitHub Actions runs."""
    file = os.environ.get(SUMMARY_VARIABLE)
    if not file:
        raise Refusal(
            f"--report github is for jobs of GitHub Actions, which set {SUMMARY_VARIABLE}: elsewhere, "
            "--report markdown=FILE"
        )
    try:
        Path(file).open("a").close()
    except OSError as error:
        raise Refusal(f"--report github: {SUMMARY_VARIABLE} is {file}: {error.strerror or error}") from error


def report_to_job(results: Sequence[Result]) -> None:
    """Print annotations, and append the summary to that of the job's step."""
    for result in results:
        for first, _, _ in faults(result.json):
            print(annotation(first, why_not_counted(result.json, first)), file=sys.stderr)
        for problem in standing_of(result.json).problems:
            print(f"::error title=harness::{_data(problem)}", file=sys.stderr)
    with Path(os.environ[SUMMARY_VARIABLE]).open("a", encoding="utf-8") as file:
        file.write(markdown(results))


def annotation(finding: Json, known: str | None = None) -> str:
    """The workflow command of a finding: an error at the innermost line that it goes back to; a known issue is a
    warning. One that does not count is a notice; `known` says why."""
    kind = "notice" if known is not None else "warning" if is_known(finding) else "error"
    properties = {}
    if places(finding):
        place = places(finding)[0]
        properties = {"file": place["file"], "line": str(place["line"])}
    properties["title"] = finding["signature"]
    text = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{kind} {text}::{_data(chr(10).join([*filter(None, [known]), *about(finding)]))}"


def _data(text: str) -> str:
    """A message as a workflow command takes it."""
    return plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def markdown(results: Sequence[Result]) -> str:
    """Results as Markdown: a table of campaigns, then each fault."""
    return "\n".join(_lines(results)) + "\n"


def _lines(results: Sequence[Result]) -> Iterator[str]:
    yield "## harness"
    yield ""
    yield "| campaign | answer |"
    yield "|---|---|"
    for result in results:
        yield f"| {_plain(result.title)} | {_plain(result.answer)} |"
    for result in results:
        for missing in result.json["missing"]:
            yield ""
            yield f"Missing: {_plain(missing)}"
        for problem in standing_of(result.json).problems:
            yield ""
            yield f"Failed: {_plain(problem)}"
        for first, others, shared in faults(result.json):
            yield ""
            yield f"### {_plain(first['signature'])}"
            if known := why_not_counted(result.json, first):
                yield ""
                yield _plain(known)
            for line in about(first):
                yield ""
                yield _plain(line)
            for place in places(first)[:1]:
                yield ""
                yield f"At {_plain(place['file'])}:{place['line']}"
            if others:
                yield ""
                yield f"{counted(len(others), 'finding')} more that very likely have the same cause ({_plain(shared)}):"
                yield ""
                for other in others:
                    known = why_not_counted(result.json, other)
                    more = f" ({_plain(known)})" if known else ""
                    yield f"- {_plain(other['signature'])}: {_plain(other['repro'] or 'not saved')}{more}"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is: no markup, no HTML."""
    words = plain(" ".join(text.split()))
    escaped = "".join(f"\\{letter}" if letter in "\\`*_{}[]#|~" else letter for letter in words)
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
