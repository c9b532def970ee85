"""One release's whole engine, in every check of a change: findings of known issues, their fixes, and a sound campaign.

It is one test, since each process that runs engines first imports a release. The environment is kept in the user's
cache.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness.campaign.campaign import Campaign
from harness.campaign.events import CampaignFinished
from harness.campaign.settings import Settings
from harness.end_to_end.builds import build_of
from harness.end_to_end.recipe import EngineRecipe
from harness.end_to_end.subject import WholeEngines
from harness.end_to_end.summary import EngineSummary
from harness.end_to_end.verdict import signature_of
from harness.issues.registry import DEFAULT_FIXES, applicable
from harness.repro import EngineRepro, read_any
from harness.sequences.controls import Controls
from harness.sequences.worker import check
from harness.worker.process import WorkerProcess
from tests.releases import with_engine

RELEASE = "0.32.0"
FILES = sorted((Path(__file__).parent / "data").glob("engine-*.json"))
MOST_EVENTS = 6


def read(file: Path) -> EngineRepro:
    _, repro = read_any(file)
    assert isinstance(repro, EngineRepro)
    return repro


def test_each_fix_of_the_runner_has_a_file() -> None:
    assert {read(file).issue for file in FILES} >= {
        "left-out-row",
        "padded-fresh-row",
        "checkpoint-into-running-block",
        "tail-behind-extend",
        "recomputed-as-decode",
        "async-accepted-counts",
        "drained-queue",
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_files_are_small_and_name_their_issue(file: Path) -> None:
    repro = read(file)
    assert repro.issue in DEFAULT_FIXES
    others = [fix for fix in DEFAULT_FIXES if fix != repro.issue]
    assert repro.issue not in repro.fixes
    assert applicable(repro.fixes, repro.sequence) == applicable(others, repro.sequence), "all that can act are on"
    assert len(repro.sequence.events) <= MOST_EVENTS


@pytest.mark.long
@pytest.mark.release
def test_one_engine(tmp_path: Path) -> None:
    target = with_engine(RELEASE)
    build = build_of(target, print)
    subject = WholeEngines(target=target, build=build)
    with subject.new_worker() as worker:
        worker.wait_ready()
        for file in FILES:
            _fails_without_its_fix_alone(worker, read(file))
    _finds_nothing_with_all_fixes(target, tmp_path)


def _fails_without_its_fix_alone(worker: WorkerProcess, repro: EngineRepro) -> None:
    """The issue shows with all fixes but its own; with its own as well it does not. The state that is wrong first is
    named, as it was when the file was made."""
    result = check(worker, repro.sequence, Controls(fixes=repro.fixes))
    assert result.violation is not None, repro.issue
    assert signature_of(result.violation) == repro.signature
    assert result.violation.summary == repro.evidence.summary
    fixed = check(worker, repro.sequence, Controls(fixes=DEFAULT_FIXES))
    assert fixed.violation is None, repro.issue
    assert fixed.steps > 0
    subject = WholeEngines(
        target=repro.origin.target, build=build_of(f"vllm=={RELEASE}", print), controls=Controls(fixes=repro.fixes)
    )
    replayed = subject.replayed(repro, subject.judge_file(worker, repro))
    assert (replayed.answer, replayed.same) == ("FAILED", True)
    recorded = next(line for line in repro.evidence.details if "wrong state" in line)
    assert recorded in replayed.summary


def _finds_nothing_with_all_fixes(target: str, out: Path) -> None:
    subject = WholeEngines(
        target=target,
        build=build_of(target, print),
        recipe=EngineRecipe(2),
        controls=Controls(fixes=DEFAULT_FIXES),
    )
    settings = Settings(out=out, cases=12)
    *_, finished = Campaign(subject, settings).run()
    assert isinstance(finished, CampaignFinished)
    summary = finished.summary
    assert isinstance(summary, EngineSummary)
    assert (summary.exit_status, summary.findings) == (0, [])
    assert summary.steps > 400
    assert summary.counters["admissions with a hit"] > 5
    assert msgspec.json.decode(msgspec.json.encode(summary))["build"] == build_of(target, print).description
