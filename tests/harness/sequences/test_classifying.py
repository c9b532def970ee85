"""Which known issue a finding is, before and after it is shrunk. A rule gives the answers of a worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from harness.campaign.events import Event, FindingKept, Notice
from harness.campaign.findings import Findings
from harness.campaign.settings import Settings
from harness.case.sequence import SequenceCase, decode_sequence
from harness.issues.registry import SEQUENCE_ISSUES
from harness.oracles.states.device import NO_WRITER
from harness.oracles.states.violation import Violation
from harness.repro import SequenceRepro
from harness.sequences.controls import Controls
from harness.sequences.judge import ENCODER, AboutDefaults
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.result import RESULTS, RunResult
from harness.sequences.subject import StepSequences
from harness.sequences.summary import SequenceFinding, findings_in_words
from harness.subject.entry import Tally
from harness.subject.subject import Ended
from harness.worker.losses import WorkerError
from harness.worker.process import WorkerProcess

SIGNATURE = "sequence/meaning/wrong-state-read/mamba/-"
VIOLATION = Violation("wrong-state-read", "conv", 3, "request 1", 1, 2, 3, NO_WRITER, "this", "that")
LONG = next(
    case
    for case in (sequence_at(SequenceRecipe(0), index) for index in range(1000))
    if case.config.runner == "V1" and case.config.asynchronous and case.config.num_spec and len(case.events) > 8
)
"""A case that can reach left-out-row and async-accepted-counts."""
SHORT = msgspec.structs.replace(
    LONG,
    config=msgspec.structs.replace(LONG.config, policy="fcfs" if LONG.config.policy == "priority" else "priority"),
    events=LONG.events[:4],
)
"""A case that reaches one issue more, or one fewer, and is distinguished from the start."""

Fails = Callable[[SequenceCase, tuple[str, ...]], bool]
"""Whether a case violates something with some fixes on."""


class Worker(WorkerProcess):
    """A worker without a process: violations follow from a rule."""

    def __init__(self, fails: Fails, broken: Callable[[SequenceCase], bool] = lambda case: False) -> None:
        self._fails, self._broken = fails, broken

    def judge(self, case: bytes, how: bytes = b"", *, index: int = -1, again: bool = True) -> bytes:
        fixes = msgspec.msgpack.decode(how, type=Controls).fixes
        if fixes and self._broken(decode_sequence(case)):
            raise WorkerError("a mistake of ours")
        violation = VIOLATION if self._fails(decode_sequence(case), fixes) else None
        return RESULTS.encode(RunResult(violation, None, 0, 4, 0.01, {}))

    def ask(self, question: str, content: bytes = b"") -> bytes:
        assert question == "defaults"
        return ENCODER.encode(AboutDefaults(None))

    def restart(self, *, again: bool = True) -> None:
        """Do nothing."""


def is_long(case: SequenceCase) -> bool:
    return len(case.events) > 4


def meets(case: SequenceCase, fixes: tuple[str, ...], *names: str) -> bool:
    """Whether a case runs into any of the issues `names`, which it can reach and no fix removes."""
    return any(issue.name in names and issue.reached_by(case) and issue.name not in fixes for issue in SEQUENCE_ISSUES)


def two_issues(case: SequenceCase, fixes: tuple[str, ...]) -> bool:
    """A rule: a long case runs into two issues, a short one into one."""
    return meets(case, fixes, "left-out-row", *(["async-accepted-counts"] if is_long(case) else []))


def new_beside_known(case: SequenceCase, fixes: tuple[str, ...]) -> bool:
    """A rule: a long case shows what no fix takes away, a short one a known issue."""
    return is_long(case) or meets(case, fixes, "left-out-row")


SUBJECT = StepSequences(target="vllm==0.33.0", recipe=SequenceRecipe(0))


def kept(
    out: Path, worker: Worker, cases: dict[int, SequenceCase], events: list[Event] | None = None
) -> list[SequenceFinding]:
    """The findings that a campaign without fixes keeps of failed cases, given by index."""
    findings = Findings(SUBJECT, Settings(out=out), lambda *_: "the harness failed")
    for index, case in cases.items():
        result = RunResult(VIOLATION, None, 0, 4, 0.01, {})
        key = SUBJECT.key(case, result)
        assert key is not None
        findings.record(index, case, result, key)
    (events if events is not None else []).extend(findings.finish(worker))
    return SUBJECT.summary(Tally(), findings.summary(), Ended(len(cases), 1.0, 1.0, 0, None, False)).findings


def read(finding: SequenceFinding) -> SequenceRepro:
    assert finding.repro is not None
    return msgspec.json.decode(Path(finding.repro).read_bytes(), type=SequenceRepro)


def test_of_two_issues_a_smaller_form_may_need_one(tmp_path: Path) -> None:
    (finding,) = kept(tmp_path, Worker(two_issues), {3: LONG})
    assert (finding.issue, finding.sequences, finding.minimal) == ("left-out-row", 1, True)
    repro = read(finding)
    assert (repro.issue, str(repro.signature)) == ("left-out-row", SIGNATURE)
    assert not is_long(repro.sequence)
    assert Path(finding.repro or "").name.startswith("sequence-left-out-row-")


def test_of_two_issues_it_may_need_both(tmp_path: Path) -> None:
    wrong = {"async-accepted-counts", "left-out-row"}
    worker = Worker(lambda case, fixes: case.config.asynchronous and meets(case, fixes, *wrong))
    (finding,) = kept(tmp_path, worker, {3: LONG})
    assert finding.issue == read(finding).issue == "async-accepted-counts+left-out-row"
    assert not is_long(read(finding).sequence)


def test_findings_that_shrink_to_one_issue_are_merged(tmp_path: Path) -> None:
    events: list[Event] = []
    (finding,) = kept(tmp_path, Worker(two_issues), {3: LONG, 5: SHORT, 6: SHORT}, events)
    assert (finding.issue, finding.first_sequence, finding.sequences) == ("left-out-row", 3, 3)
    assert [path.name for path in tmp_path.glob("*.json")] == [Path(finding.repro or "").name]
    texts = [event.text for event in events if isinstance(event, Notice)]
    assert f"{SIGNATURE} [left-out-row] was found in 2 more sequences: see {finding.repro}" in texts
    (done,) = [event for event in events if isinstance(event, FindingKept)]
    assert (str(done.key), str(done.path)) == (finding.name, finding.repro)


@pytest.mark.parametrize("sound", [True, False], ids=["classified", "the harness fails"])
def test_a_new_finding_does_not_shrink_into_a_known_issue(tmp_path: Path, sound: bool) -> None:
    (finding,) = kept(tmp_path, Worker(new_beside_known, lambda case: not sound), {3: LONG})
    assert finding.issue is None
    repro = read(finding)
    assert is_long(repro.sequence)
    assert (repro.sequence == LONG) == (not sound)
    assert finding.minimal == sound
    assert finding.classified == sound
    assert findings_in_words([finding], []) == f"1 finding: 1 {'new' if sound else 'not compared with known issues'}"
    assert ("not compared with known issues, not minimal" in finding.line) is not sound


def test_a_finding_that_was_not_classified_does_not_represent_one_that_was(tmp_path: Path) -> None:
    """Though its sequence comes first: what is known of the other would be lost."""
    (finding,) = kept(tmp_path, Worker(lambda case, fixes: True, is_long), {3: LONG, 5: SHORT})
    assert (finding.first_sequence, finding.sequences, finding.classified) == (5, 2, True)
    assert finding.minimal


def test_findings_are_counted_by_what_is_known_of_them() -> None:
    one = SequenceFinding(SIGNATURE, None, "this is that", 3, 1, 9, "f.json")
    known = msgspec.structs.replace(one, issue="left-out-row")
    unknown = msgspec.structs.replace(one, classified=False)
    back = msgspec.structs.replace(known, regression=True)
    assert findings_in_words([known, one], []) == "2 findings: 1 known issue, 1 new"
    assert findings_in_words([known], []) == "1 finding: 1 known issue, 0 new"
    assert findings_in_words([known, unknown], []) == "2 findings: 1 known issue, 1 not compared with known issues"
    assert findings_in_words([back], []) == "1 finding: REGRESSION of left-out-row"
