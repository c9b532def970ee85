"""What counts as a wrong token, and what as an answer; engine and symbolic run are stand-ins here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.case.sequence import SequenceCase
from harness.end_to_end.builds import Build
from harness.end_to_end.confirming import Confirmation, Confirmer, differences
from harness.end_to_end.messages import EngineFacts, ModelKind, RequestTokens, RunSequence, SequenceAnswer
from harness.issues.registry import DEFAULT_FIXES
from harness.oracles.states.device import NO_WRITER
from harness.oracles.states.violation import Violation
from harness.repro import SequenceRepro, read_any
from harness.sequences.controls import Controls
from harness.sequences.result import RunResult
from harness.worker.losses import WorkerLost

CORPUS = Path(__file__).resolve().parents[3] / "corpus" / "sequences"
FILE = CORPUS / "left-out-row.json"


class Engine:
    """Answers every sequence with the same thing."""

    def __init__(self, answer: SequenceAnswer | WorkerLost) -> None:
        self._answer = answer
        self.ran: list[SequenceCase] = []

    def facts(self, model: ModelKind, num_spec: int) -> EngineFacts:
        groups = (("mamba", 32), ("attention", 32))
        return EngineFacts(
            version="1", groups=groups, num_blocks=64, checkpoint_alignment=1, window=4, retention=0, runner="V1"
        )

    def require_sensitive(self, model: ModelKind) -> None:
        assert model == ModelKind("mamba2", 1)

    def run(self, request: RunSequence) -> SequenceAnswer:
        self.ran.append(request.sequence)
        if isinstance(self._answer, WorkerLost):
            raise self._answer
        return self._answer


class Symbolic:
    """Finds something wrong unless one of `clean` is among the fixes."""

    def __init__(self, *clean: str, always: bool = False, never: bool = False) -> None:
        self._clean, self._always, self._never = set(clean), always, never

    def check(self, case: SequenceCase, controls: Controls) -> RunResult:
        clear = self._never or (not self._always and self._clean & set(controls.fixes))
        place = ("temporal", 6, "request 1", 1, 0, 2, NO_WRITER, "held", "due")
        return RunResult(None if clear else Violation("wrong-state-read", *place), None, 0, 9, 0.1, {"rows": 4})


def said(*tokens: int, margin: float = 0.5, request: int = 1) -> RequestTokens:
    return RequestTokens(request=request, prompt=4, said=list(tokens), due=[7, 8, 9], margins=[margin] * 3)


def confirm(engine: Any, symbolic: Any, file: Path = FILE) -> Confirmation:
    _, repro = read_any(file)
    assert isinstance(repro, SequenceRepro)
    build = Build("vllm==1", Path("python"), (), "a build")
    return Confirmer("vllm==1", build, engine, symbolic, lambda how: None).confirm(repro)


def test_the_first_wrong_token_counts() -> None:
    wrong, ties = differences(SequenceAnswer(requests=[said(7, 1, 2), said(7, 8, 9, request=2)], noise=1e-7))
    assert [(one.request, one.output, one.position, one.said, one.due) for one in wrong] == [(1, 1, 5, 1, 8)]
    assert ties == 0


def test_fewer_tokens_are_not_wrong_ones() -> None:
    assert differences(SequenceAnswer(requests=[said(7)])) == ([], 0)


@pytest.mark.parametrize(("margin", "noise", "tie"), [(1e-5, 0.0, True), (1e-3, 0.0, False), (1e-3, 1e-4, True)])
def test_two_tokens_that_are_as_good_are_a_tie(margin: float, noise: float, tie: bool) -> None:
    wrong, ties = differences(SequenceAnswer(requests=[said(7, 1, margin=margin)], noise=noise))
    assert (len(wrong), ties) == ((0, 1) if tie else (1, 0))


def test_wrong_tokens_confirm_and_the_predicted_request_is_compared() -> None:
    engine = Engine(SequenceAnswer(requests=[said(7, 1)], replaced=["x"], steps=9))
    answer = confirm(engine, Symbolic("left-out-row"))
    assert (answer.answer, answer.as_predicted, answer.steps, answer.replaced) == ("CONFIRMED", True, 9, ("x",))
    assert answer.carried == engine.ran[0]
    other = confirm(Engine(SequenceAnswer(requests=[said(7, 1, request=5)])), Symbolic("left-out-row"))
    assert (other.answer, other.as_predicted) == ("CONFIRMED", False)


def test_right_tokens_do_not_confirm_after_several_forms() -> None:
    engine = Engine(SequenceAnswer(requests=[said(7, 8, 9)]))
    answer = confirm(engine, Symbolic("left-out-row"))
    assert answer.answer == "NOT CONFIRMED"
    assert len(engine.ran) > 1


def test_a_kernel_that_leaves_its_memory_confirms() -> None:
    answer = confirm(Engine(SequenceAnswer(kernel_faults=["out-of-bounds: here"])), Symbolic("left-out-row"))
    assert (answer.answer, answer.kernel_faults) == ("CONFIRMED", ("out-of-bounds: here",))


def test_a_lost_process_says_nothing_of_tokens() -> None:
    answer = confirm(Engine(WorkerLost("crash-SIGSEGV", -1, "sequence", "")), Symbolic("left-out-row"))
    assert answer.answer == "CANNOT"
    assert "crash-SIGSEGV" in (answer.reason or "")


@pytest.mark.parametrize(
    "symbolic",
    [
        Symbolic(never=True),  # nothing is wrong with the carried form
        Symbolic(always=True),  # something is, and it is not this issue
        Symbolic(*(fix for fix in DEFAULT_FIXES if fix != "left-out-row")),  # it is another known issue
    ],
    ids=["clean", "not this issue", "another issue"],
)
def test_no_engine_runs_unless_the_symbolic_device_finds_this_issue(symbolic: Symbolic) -> None:
    engine = Engine(SequenceAnswer(requests=[said(1)]))
    answer = confirm(engine, symbolic)
    assert (answer.answer, engine.ran) == ("CANNOT", [])
    assert answer.reason


def test_a_file_that_shows_nothing_in_this_release_says_so() -> None:
    answer = confirm(Engine(SequenceAnswer()), Symbolic(never=True))
    assert answer.answer == "CANNOT"
    assert "the file itself" in (answer.reason or "")


def test_what_an_engine_refuses_cannot_be_confirmed() -> None:
    answer = confirm(Engine(SequenceAnswer(refused="a budget below a block")), Symbolic("left-out-row"))
    assert (answer.answer, answer.reason) == ("CANNOT", "a budget below a block")


def test_a_sequence_that_cannot_be_carried_says_why() -> None:
    answer = confirm(Engine(SequenceAnswer()), Symbolic(), CORPUS / "split-block-size.json")
    assert answer.answer == "CANNOT"
    assert "drafter" in (answer.reason or "")


def test_no_engine_is_asked_what_layers_are_that_none_has() -> None:
    _, repro = read_any(FILE)
    assert isinstance(repro, SequenceRepro)
    config = msgspec.structs.replace(repro.sequence.config, layers="kda")
    repro = msgspec.structs.replace(repro, sequence=msgspec.structs.replace(repro.sequence, config=config))
    build, engine = Build("vllm==1", Path("python"), (), "a build"), Engine(SequenceAnswer())
    vars(engine)["facts"] = None
    answer = Confirmer("vllm==1", build, engine, Symbolic(), lambda how: None).confirm(repro)  # type: ignore[arg-type]
    assert (answer.answer, answer.reason) == ("CANNOT", "layers of kda: no engine here has a model with them")
