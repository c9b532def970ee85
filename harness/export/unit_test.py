"""`unit-test`: a finding of step sequences as a test of a release's own scheduler.

The test makes a scheduler of vLLM's own classes, drives it with the events of the finding, and follows what the blocks
hold with a worker as it should be. So it fails where the scheduler or the block manager is at fault. Where a runner is,
the scheduler's part of the finding runs, and the test says that it is only that.
"""

from __future__ import annotations

from typing import Literal

from harness import __version__
from harness.export.composing import compose
from harness.export.form import Form, Request
from harness.export.literals import comment, literal, plain
from harness.export.pytest_function import identifier
from harness.export.sequence_data import script_events, script_settings
from harness.issues.change import Change
from harness.issues.registry import issues_of
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
        SHOWS[side_of(repro)],
    ]


SHOWS: dict[Side, str] = {
    "scheduler": (
        "The scheduler or a block manager is at fault: the test follows a worker that does as they say, and fails "
        "where that worker would start from a wrong state, or where the prefix cache has one."
    ),
    "runner": (
        "The fault is in the model runner: only its own code, or a model of it, shows it. So THIS TEST PASSES ON "
        "AFFECTED RELEASES. It is the scheduler's part of the finding: its outputs are right, as a worker that does "
        "as it is asked shows (class Worker); the runner of the release does something else with them. `harness "
        "replay` runs the runner's own host code with the same events."
    ),
    "unknown": (
        "The test follows a worker that does as they say. If it fails, the scheduler or a block manager is at "
        "fault. If it passes on a release that has the finding, the fault is in the model runner: only its own code, "
        "or a model of it, shows that, and `harness replay` runs it."
    ),
}


SHOWN_BY_WORKER = ("checkpoint-into-running-block",)
"""Issues of layers, which a worker that does as the release's rules say has as well."""


def side_of(repro: SequenceRepro) -> Side:
    """Whose fault it is, by what the fix of the known issue changes."""
    issues = [issue for issue in issues_of(repro.issue) if issue.name not in SHOWN_BY_WORKER]
    if not issues and repro.issue in SHOWN_BY_WORKER:
        return "scheduler"
    if not issues:
        return "unknown"
    unchanged = Change().rules
    return "scheduler" if all(issue.change.rules is unchanged for issue in issues) else "runner"
