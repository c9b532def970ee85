"""What a result says about a finding: where host code could not run, nothing about a difference from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.case.sequence import SequenceCase
from harness.check.outcome import Signature
from harness.kernels.targets.vllm.scheduling.runner_pair import HostDifference
from harness.oracles.states.device import NO_WRITER
from harness.oracles.states.violation import HOST_CODE_DIFFERS, Violation
from harness.repro import SequenceRepro, read_any
from harness.sequences.classifying import SequencePlan, classify
from harness.sequences.controls import Controls
from harness.sequences.judge import AboutDefaults
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.result import RunResult
from harness.sequences.subject import StepSequences
from harness.sequences.verdicts import bytes_not_judged, not_judged, signature_of, violation_of
from harness.sweep.sweep import _judged

CORPUS = Path(__file__).resolve().parents[3] / "corpus"

DIFFERS = Signature("sequence", "meaning", HOST_CODE_DIFFERS, "tokens", "-")
OTHER = Signature("sequence", "meaning", "wrong-state-read", "mamba", "-")


def result(**fields: Any) -> RunResult:
    counters = fields.pop("counters", {"rows": 9})
    return RunResult(None, fields.pop("skipped", None), -1, 9, 0.1, counters, **fields)


def test_a_difference_is_not_judged_where_host_code_did_not_run() -> None:
    assert not_judged(DIFFERS, result(host_code_lacks="it needs a")) == "host code not run: it needs a"
    assert not_judged(DIFFERS, result()) is None
    assert not_judged(OTHER, result(host_code_lacks="it needs a")) is None
    assert not_judged(OTHER, result(skipped="no b")) == not_judged(DIFFERS, result(skipped="no b")) == "no b"


@pytest.mark.parametrize("kind", ["exception-ValueError", "process-crash-SIGSEGV"])
def test_what_host_code_may_have_done_is_not_cleared_without_it(kind: str) -> None:
    signature = msgspec.structs.replace(OTHER, violation=kind)
    assert not_judged(signature, result(host_code_lacks="it needs a")) == "host code not run: it needs a"
    assert not_judged(signature, result()) is None


def test_a_sequence_without_a_row_is_no_pass() -> None:
    assert not_judged(OTHER, result(counters={"steps": 9, "empty steps": 9})) == "no row ran"
    assert not_judged(OTHER, result(counters={"rows": 1})) is None


@pytest.mark.parametrize(
    ("kind", "found_on", "executor", "counters", "says"),
    [
        ("bytes-differ", "native", "native", {"kernel launches": 2}, None),
        ("bytes-differ", "native", None, {}, "only --bytes shows it"),
        ("bytes-differ", "native", "native", {}, "no kernel was launched"),
        ("count-differs", "native", "cuda", {"kernel launches": 2}, "depends on program order: try `-e native`"),
        ("count-differs", "native", "interpreter", {"kernel launches": 2}, None),
        ("out-of-bounds", "native", "native", {"kernel launches": 2}, None),
        ("out-of-bounds", "native", "interpreter", {"kernel launches": 2}, "try `-e native`"),
        ("wrong-state-read", "symbolic", None, {}, None),
    ],
)
def test_what_only_kernels_show_is_cleared_by_kernels(
    kind: str, found_on: str, executor: str | None, counters: dict[str, int], says: str | None
) -> None:
    signature = msgspec.structs.replace(OTHER, violation=kind)
    reason = bytes_not_judged(signature, result(counters=counters), found_on, executor)
    assert reason is None if says is None else reason is not None and says in reason


def test_a_difference_is_a_violation_that_names_both_sides() -> None:
    violation = violation_of(
        HostDifference(1, "request 2", "forward pass: accepted", "num_accepted_tokens of row 1", "2", "1")
    )
    assert violation.summary == (
        "step 1, request 2: num_accepted_tokens of row 1 (forward pass: accepted): "
        "the release's host code says 2, our model of it says 1"
    )
    assert violation.place == "num_accepted_tokens of row 1"
    assert str(signature_of(violation)) == f"sequence/meaning/{HOST_CODE_DIFFERS}/forward pass: accepted/-"


@pytest.mark.parametrize("lacks", ["it needs a", None])
def test_a_sweep_does_not_clear_a_release_whose_host_code_did_not_run(lacks: str | None) -> None:
    _, repro = read_any(CORPUS / "sequences" / "left-out-row.json")
    assert isinstance(repro, SequenceRepro)
    subject = StepSequences(target="vllm==1")
    replayed = subject.replayed(msgspec.structs.replace(repro, signature=DIFFERS), result(host_code_lacks=lacks))
    answer = _judged(subject.target, replayed)
    assert answer.answer == ("FIXED" if lacks is None else "NOT APPLICABLE")
    assert replayed.answer == ("FIXED" if lacks is None else "SKIPPED")


@pytest.fixture
def signature(kind: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The known issue of a violation of a kind, in a release in which any one fix takes it away."""
    violation = Violation(kind, "tokens", 3, "request 1", -1, -1, -1, NO_WRITER, "this", "that")

    def check(worker: object, case: SequenceCase, controls: Controls, **_: Any) -> RunResult:
        return RunResult(None if controls.fixes else violation, None, 0, 4, 0.01, {})

    monkeypatch.setattr("harness.sequences.classifying.check", check)
    monkeypatch.setattr("harness.sequences.classifying.defaults_of", lambda worker: AboutDefaults(None))
    return str(signature_of(violation))


@pytest.mark.parametrize(("kind", "known"), [(HOST_CODE_DIFFERS, False), ("wrong-state-read", True)])
def test_a_difference_is_not_a_known_issue(signature: str, known: bool) -> None:
    worker: Any = None
    case = sequence_at(SequenceRecipe(0), 0)
    assert (classify(worker, case, Controls(), signature) is not None) is known
    plan = SequencePlan(worker, signature, None, Controls())
    judged = plan.judge(case)
    assert judged is not None
    assert judged.same is not known, "what is new shrinks into no known issue"
