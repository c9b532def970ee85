"""What comes out of a sequence that runs both ways, with stand-ins for both."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.case.sequence import Add, Segment, SequenceCase, Step
from harness.case.step_row import StepRow
from harness.end_to_end.agreeing import Agreeing, OneSequence
from harness.end_to_end.agreement import Compared
from harness.end_to_end.messages import RequestTokens, SequenceAnswer
from harness.sequences.planned_steps import PlannedSteps
from tests.harness.end_to_end.test_chance import CONFIG

CASE = SequenceCase(
    config=CONFIG,
    events=(Add(request=0, prompt=(Segment(family=0, length=9),), outputs=3), Step()),
)

ROW = StepRow(
    request=0, slot=0, computed=0, scheduled=9, drafts=0, accepted=1, state_column=0, move=None, attention=(), mamba=()
)
CUT = msgspec.structs.replace(ROW, scheduled=4)


def agreeing() -> Any:
    made: Any = Agreeing.__new__(Agreeing)
    made.compared, made.ended = Compared(), 0
    return made


@pytest.mark.parametrize(("ended", "unseen"), [(None, (0,)), ("step 1: a wrong state", ())])
def test_wrong_tokens_of_which_the_symbolic_run_sees_nothing(ended: str | None, unseen: tuple[int, ...]) -> None:
    wrong = RequestTokens(request=0, prompt=9, said=[5], due=[6], margins=[1.0])
    made = agreeing()
    made._planned = lambda case: PlannedSteps([[ROW]], ended)
    made._run = lambda case: SequenceAnswer(recorded=[[ROW]], requests=[wrong])
    one = made._compared(7, CASE)
    assert (one.difference, one.unseen, one.agrees) == (None, unseen, not unseen)


@pytest.mark.parametrize(
    ("chances", "steps", "vocabulary"),
    [
        ([False], [CUT], 64),  # a difference
        ([True], [ROW], 64),  # none, so chance is not asked for
        ([True, True, False], [CUT, CUT, ROW], 62),
        ([True, False], [CUT, CUT], 63),
        ([True] * 4, [CUT] * 4, None),
    ],
)
def test_a_difference_that_may_be_chance_is_looked_at_with_other_tokens(
    chances: list[bool], steps: list[StepRow], vocabulary: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, asked = iter(steps), iter(chances)
    made = agreeing()
    made._planned = lambda case: PlannedSteps([[next(planned)]])
    made._run = lambda case: SequenceAnswer(recorded=[[ROW]])
    monkeypatch.setattr("harness.end_to_end.agreeing.parted_by_chance", lambda case, answer: next(asked))
    one = made._compared(7, CASE)
    if vocabulary is None:
        assert one == "requests share tokens by chance"
        assert made.compared == Compared()
        return
    assert isinstance(one, OneSequence)
    assert one.case.config.vocabulary == vocabulary
    assert (one.difference is None) == (steps[-1] is ROW)
    assert next(planned, None) is None
