"""`unit-test`: a finding of step sequences as a test of a release's own scheduler.

The test makes a scheduler of vLLM's own classes, drives it with the events of the finding, and follows what the blocks
hold with a worker as it should be. So it fails where the scheduler or the block manager is at fault. A finding whose
fault is in the runner has no such test: it would pass on affected releases.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from harness import __version__
from harness.export.composing import compose
from harness.export.form import Form, NotExportable, Request
from harness.export.literals import comment, literal, plain
from harness.export.permanent_links import version_of
from harness.export.pytest_function import identifier
from harness.export.sequence_data import script_events, script_settings
from harness.issues.change import Change
from harness.issues.registry import SEQUENCE_ISSUES, issues_of
from harness.issues.sequence_issue import SequenceIssue
from harness.oracles.states.violation import BYTE_KINDS, HOST_CODE_DIFFERS
from harness.repro import SequenceRepro

FOLDER = "harness.export.sequence_test"

Side = Literal["scheduler", "runner", "unknown"]

_TEST = """

def test_{name}() -> None:
    run = Run(SETTINGS)
    for event in EVENTS:
        run.do(event)
"""


class UnitTest(Form):
    """See the module."""

    name = "unit-test"
    summary = "a test that drives a release's own scheduler through the events, with plain vLLM classes"
    ending = ".py"
    kinds = ("sequence",)

    def text(self, request: Request) -> str:
        repro = request.repro
        assert isinstance(repro, SequenceRepro)
        if repro.signature.violation in BYTE_KINDS:
            raise NotExportable(
                f"{request.file}: it is about bytes that kernels left, which no scheduler shows; `harness run --ops "
                "sequences --cases-out DIR` writes kernel cases of sequences"
            )
        if repro.sequence.streams:
            raise NotExportable(f"{request.file}: {WHY_NOT_STREAMED}{_unit_test_of(repro)}")
        if side_of(repro) == "runner":
            raise NotExportable(f"{request.file}: {WHY_NOT_RUNNER}{_unit_test_of(repro)}")
        settings, events = script_settings(repro.sequence), script_events(repro.sequence)
        data = {"sequence": f"SETTINGS = {literal(settings)}\n\nEVENTS = {literal(events)}\n"}
        code = compose(FOLDER, ["running"], data)
        return comment(*heading(request, repro)) + code + _TEST.format(name=identifier(request.file))


UNIT_TEST = UnitTest()


def heading(request: Request, repro: SequenceRepro) -> list[str]:
    """What was found, and what the test can show of it."""
    found = f"Found on {plain(repro.origin.target)}"
    if repro.issue:
        found += f"; it is the known issue {plain(repro.issue)}"
    return [
        f"Shows a finding: {plain(repro.signature)}",
        plain(repro.evidence.summary),
        f"{found}. Written by harness {plain(__version__)} (harness export --as unit-test).",
        "",
        "Run it with pytest, next to an installed vLLM, or with its sources in the folder that the variable "
        "VLLM_SOURCES names. It needs neither a GPU nor a model: the scheduler, the block managers and the requests "
        "are vLLM's own.",
        "",
        SHOWS[side_of(repro) == "scheduler"],
        *(["", "It was found with planted faults, which are not in the test."] if repro.faults else []),
        *_others(request, repro),
    ]


def _others(request: Request, repro: SequenceRepro) -> Iterator[str]:
    """Other faults of schedulers that the test may meet first: their fixes are on in a replay, and not in a test."""
    version, own = version_of(request.target), {issue.name for issue in issues_of(repro.issue)}
    if version is None:
        return
    others = [
        f"{issue.name} ({issue.report})"
        for issue in SEQUENCE_ISSUES
        if issue.name not in own
        and is_of_scheduler(issue)
        and issue.is_in_release(version)
        and issue.reached_by(repro.sequence)
    ]
    if others:
        yield ""
        yield (
            "These settings reach other known issues of that release, of which one may show first: "
            f"{', '.join(others)}."
        )


WHY_NOT_RUNNER = (
    "its fault is in the model runner, not in the scheduler: a test of the scheduler passes on affected releases; "
    "`harness replay` runs the runner's own host code"
)
"""Why a finding is not exported. Outside a whole model runner, its host code runs on stand-ins for buffers, batch and
forward pass that are a part of the harness (`kernels/targets/vllm/scheduling`), too large for a test."""


WHY_NOT_STREAMED = (
    "its requests have streaming input, which such a test does not drive; `harness replay` does, with the release's "
    "own scheduler"
)


def _unit_test_of(repro: SequenceRepro) -> str:
    """Where a report has a unit test of the runner's code that is at fault."""
    reports = [issue.report for issue in issues_of(repro.issue) if issue.report.startswith("docs/reports/")]
    return f", and {' and '.join(reports)} has a unit test of the code at fault" if reports else ""


SHOWS: dict[bool, str] = {
    True: (
        "The scheduler or a block manager is at fault: the test follows a worker that does as they say, and fails "
        "where that worker would start from a wrong state, or where the prefix cache has one."
    ),
    False: (
        "The test follows a worker that does as they say. If it fails, the scheduler or a block manager is at "
        "fault. If it passes on a release that has the finding, the fault is in the model runner: only its own code, "
        "or a model of it, shows that, and `harness replay` runs it."
    ),
}


SHOWN_BY_WORKER = ("checkpoint-into-running-block",)
"""Issues of layers, which a worker that does as the release's rules say has as well."""


def side_of(repro: SequenceRepro) -> Side:
    """Whose fault it is, by what the fix of the known issue changes."""
    if repro.signature.violation == HOST_CODE_DIFFERS:
        return "runner"
    issues = issues_of(repro.issue)
    if not issues:
        return "unknown"
    return "scheduler" if all(map(is_of_scheduler, issues)) else "runner"


def is_of_scheduler(issue: SequenceIssue) -> bool:
    return issue.change.rules is Change().rules or issue.name in SHOWN_BY_WORKER
