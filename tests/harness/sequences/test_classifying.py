"""Which known issue a finding is, before and after it is shrunk. What a child would answer follows from a rule here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from harness.case.sequence import SequenceCase
from harness.oracles.meaning.device import NOBODY
from harness.oracles.meaning.violation import Violation
from harness.repro import SequenceRepro
from harness.sequences.controls import Controls
from harness.sequences.findings import Findings
from harness.sequences.known import KNOWN
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.result import RunResult
from harness.sequences.settings import SequenceSettings
from harness.sequences.summary import SequenceFinding
from harness.sequences.worker import SequenceWorker
from harness.worker.losses import WorkerError

SIGNATURE = "sequence/meaning/wrong-state-read/mamba/-"
VIOLATION = Violation("wrong-state-read", "conv", 3, "request 1", 1, 2, 3, NOBODY, "this", "that")
LONG = next(
    case
    for case in (sequence_at(SequenceRecipe(0), index) for index in range(1000))
    if case.config.runner == "V1" and case.config.asynchronous and case.config.num_spec and len(case.events) > 8
)
"""It can reach left-out-row and async-accepted-counts."""
SHORT = msgspec.structs.replace(
    LONG,
    config=msgspec.structs.replace(LONG.config, policy="fcfs" if LONG.config.policy == "priority" else "priority"),
    events=LONG.events[:4],
)
"""It reaches one issue more, or one fewer, and is told apart from the start."""

Fails = Callable[[SequenceCase, tuple[str, ...]], bool]
"""Whether a case violates something with some fixes on."""


class Child(SequenceWorker):
    """No process: violations follow from a rule."""

    def __init__(self, fails: Fails) -> None:
        self._fails = fails

    def check(self, case: SequenceCase, controls: Controls, *, again: bool = True) -> RunResult:
        violation = VIOLATION if self._fails(case, controls.fixes) else None
        return RunResult(violation, None, 0, 4, 0.01, {})

    def restart(self, *, again: bool = True) -> None:
        pass


def is_long(case: SequenceCase) -> bool:
    return len(case.events) > 4


def meets(case: SequenceCase, fixes: tuple[str, ...], *names: str) -> bool:
    """Whether a case runs into any of the issues `names`, which it can reach and no fix takes out."""
    return any(issue.name in names and issue.reaches(case) and issue.fix not in fixes for issue in KNOWN)


def two_issues(case: SequenceCase, fixes: tuple[str, ...]) -> bool:
    """A long case runs into two of them, a short one into one."""
    return meets(case, fixes, "left-out-row", *(["async-accepted-counts"] if is_long(case) else []))


def new_beside_known(case: SequenceCase, fixes: tuple[str, ...]) -> bool:
    """A long case shows what no fix takes away, a short one a known issue."""
    return is_long(case) or meets(case, fixes, "left-out-row")


def kept(
    out: Path, child: Child, cases: dict[int, SequenceCase], told: list[str] | None = None
) -> list[SequenceFinding]:
    """What a campaign without fixes makes of cases, by index, that failed in it."""
    settings = SequenceSettings(target="vllm==0.33.0", recipe=SequenceRecipe(0), controls=Controls(), out=out)
    notice = (lambda _: None) if told is None else told.append
    findings = Findings(settings, notice, notice, lambda *_: "the harness failed")
    for index, case in cases.items():
        findings.note(index, case, RunResult(VIOLATION, None, 0, 4, 0.01, {}))
    findings.keep(child)
    return findings.summary()


def read(finding: SequenceFinding) -> SequenceRepro:
    assert finding.repro is not None
    return msgspec.json.decode(Path(finding.repro).read_bytes(), type=SequenceRepro)


def test_of_two_issues_a_smaller_form_may_need_one(tmp_path: Path) -> None:
    (finding,) = kept(tmp_path, Child(two_issues), {3: LONG})
    assert (finding.issue, finding.sequences, finding.minimal) == ("left-out-row", 1, True)
    repro = read(finding)
    assert (repro.issue, str(repro.signature)) == ("left-out-row", SIGNATURE)
    assert not is_long(repro.sequence)
    assert Path(finding.repro or "").name.startswith("sequence-left-out-row-")


def test_of_two_issues_it_may_need_both(tmp_path: Path) -> None:
    wrong = {"async-accepted-counts", "left-out-row"}
    child = Child(lambda case, fixes: case.config.asynchronous and meets(case, fixes, *wrong))
    (finding,) = kept(tmp_path, child, {3: LONG})
    assert finding.issue == read(finding).issue == "async-accepted-counts+left-out-row"
    assert not is_long(read(finding).sequence)


def test_findings_that_come_down_to_one_issue_are_one(tmp_path: Path) -> None:
    told: list[str] = []
    child = Child(two_issues)
    (finding,) = kept(tmp_path, child, {3: LONG, 5: SHORT, 6: SHORT}, told)
    assert (finding.issue, finding.first_sequence, finding.sequences) == ("left-out-row", 3, 3)
    assert [path.name for path in tmp_path.glob("*.json")] == [Path(finding.repro or "").name]
    assert f"{SIGNATURE} [left-out-row] was found in 2 more sequences: see {finding.repro}" in told
    assert sum(line.startswith("FOUND") for line in told) == 1


@pytest.mark.parametrize("sound", [True, False], ids=["classified", "the harness fails"])
def test_what_is_new_shrinks_into_no_known_issue(tmp_path: Path, sound: bool) -> None:
    child = Child(new_beside_known)
    if not sound:
        check = child.check

        def broken(case: SequenceCase, controls: Controls, *, again: bool = True) -> RunResult:
            if controls.fixes:
                raise WorkerError("a mistake of ours")
            return check(case, controls)

        child.check = broken  # type: ignore[method-assign]
    (finding,) = kept(tmp_path, child, {3: LONG})
    assert finding.issue is None
    repro = read(finding)
    assert is_long(repro.sequence)
    assert (repro.sequence == LONG) == (not sound)
    assert finding.minimal == sound
