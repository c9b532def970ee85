"""The corpus of sequences: each file replays as docs/findings.md says, on the newest release."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness.issues.registry import SEQUENCE_ISSUES, issues_of
from harness.repro import SequenceRepro, read_any
from harness.sequences.controls import Controls
from harness.sequences.verdicts import signature_of
from harness.sequences.worker import SequenceWorker

ROOT = Path(__file__).resolve().parents[3]
CORPUS = sorted((ROOT / "corpus" / "sequences").glob("*.json"))
PAGE = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
NEWEST = "vllm==0.33.0"
MOST_EVENTS = 12


def read(file: Path) -> SequenceRepro:
    _, repro = read_any(file)
    assert isinstance(repro, SequenceRepro)
    return repro


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_files_are_small_and_name_a_known_issue(file: Path) -> None:
    repro = read(file)
    assert 0 < len(repro.sequence.events) <= MOST_EVENTS
    assert repro.issue is None or repro.issue in {issue.name for issue in SEQUENCE_ISSUES}
    assert repro.faults == ()


def test_every_issue_of_the_page_has_a_file() -> None:
    rows = {line.split(":")[0].removeprefix("| ") for line in PAGE.splitlines() if line.startswith("| ")}
    documented = {issue.name for issue in SEQUENCE_ISSUES} & {row.split(" ")[0] for row in rows}
    assert len(documented) == len(SEQUENCE_ISSUES)
    assert documented - {file.stem for file in CORPUS} == set()


def assert_fails_without_its_fix_alone(child: SequenceWorker, file: Path) -> None:
    repro = read(file)
    controls = Controls(fixes=repro.fixes)
    violation = child.check(repro.sequence, controls).violation
    assert violation is not None
    assert signature_of(violation) == repro.signature
    assert violation.summary == repro.evidence.summary
    fixed = msgspec.structs.replace(controls, fixes=(*repro.fixes, *(issue.name for issue in issues_of(repro.issue))))
    assert fixed != controls
    assert child.check(repro.sequence, fixed).violation is None


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_files_of_the_newest_release_fail_and_older_ones_are_fixed(scheduler: SequenceWorker, file: Path) -> None:
    repro = read(file)
    if repro.origin.target == NEWEST:
        assert_fails_without_its_fix_alone(scheduler, file)
    else:
        assert scheduler.check(repro.sequence, Controls(fixes=repro.fixes)).violation is None


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("left-out-row", "step 5: request 1 left out (not scheduled)"),
        ("preempted-while-scheduled", "step 10: request 0 preempted"),
        ("copy-of-fresh-block", "step 9: request 6 admitted with 74 tokens computed"),
    ],
)
def test_what_the_scheduler_did_with_the_request_is_shown(scheduler: SequenceWorker, name: str, line: str) -> None:
    repro = read(ROOT / "corpus" / "sequences" / f"{name}.json")
    assert line in scheduler.check(repro.sequence, Controls(fixes=repro.fixes)).trace.splitlines()


OLDER = sorted({read(file).origin.target for file in CORPUS} - {NEWEST})


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.parametrize("target", OLDER)
def test_files_fail_in_the_older_release_where_they_were_found(target: str) -> None:
    files = [file for file in CORPUS if read(file).origin.target == target]
    with SequenceWorker(target) as child:
        child.wait_ready()
        for file in files:
            assert_fails_without_its_fix_alone(child, file)
