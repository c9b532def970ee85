"""When two requests share tokens by chance alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.case.sequence import Add, Segment, SequenceCase, SequenceConfig, Step
from harness.case.step_row import StepRow
from harness.end_to_end.agreeing import Agreeing, OneSequence
from harness.end_to_end.agreement import Compared
from harness.end_to_end.chance import parted_by_chance
from harness.end_to_end.messages import RequestTokens, SequenceAnswer
from harness.end_to_end.spelling import spelled
from harness.oracles.states.texts import Text, token_of_family
from harness.sequences.planned_steps import PlannedSteps

VOCABULARY = 64
SHORT, OTHER = (Segment(family=0, length=9),), (Segment(family=0, length=9), Segment(family=12, length=3))
CASE = SequenceCase(
    config=SequenceConfig(
        runner="V1",
        block_size=32,
        num_spec=0,
        drafter_block_size=None,
        length_limit=64,
        budget=64,
        requests=2,
        num_blocks=64,
        vocabulary=VOCABULARY,
    ),
    events=(Add(request=0, prompt=SHORT, outputs=3), Add(request=1, prompt=OTHER, outputs=3), Step()),
)


def request(number: int, prompt: tuple[Segment, ...], said: list[int]) -> RequestTokens:
    tokens = [spelled(token) for token in Text(prompt, VOCABULARY).tokens]
    return RequestTokens(
        request=number, prompt=len(tokens), prompt_tokens=tokens, said=said, due=said, margins=[0.0] * len(said)
    )


def parted(*said: int) -> bool:
    """Whether it is chance, with an engine whose first request says this behind its prompt."""
    return parted_by_chance(CASE, SequenceAnswer(requests=[request(0, SHORT, [*said]), request(1, OTHER, [7, 8])]))


def test_other_tokens_alone_are_no_chance() -> None:
    assert not parted()
    assert not parted(3, 4)


def test_a_token_that_is_the_next_one_of_another_prompt_is_chance() -> None:
    following = token_of_family(12, 9, VOCABULARY)
    assert Text(SHORT, VOCABULARY).prefix[9] == Text(OTHER, VOCABULARY).prefix[9]
    assert parted(spelled(following))
    assert parted(spelled(following), 4)


def test_it_may_be_the_symbolic_run_where_tokens_are_the_same() -> None:
    """Of some hundred lengths there is one after which the model happens to continue with the other text."""
    length = next(n for n in range(1, 500) if _next(n) == token_of_family(12, n, VOCABULARY))
    short, other = (Segment(family=0, length=length),), (Segment(family=0, length=length), Segment(family=12, length=3))
    config = msgspec.structs.replace(CASE.config, length_limit=1024)
    case = SequenceCase(
        config=config, events=(Add(request=0, prompt=short, outputs=3), Add(request=1, prompt=other, outputs=3), Step())
    )
    unlike = spelled(token_of_family(12, length, VOCABULARY)) + 1
    assert parted_by_chance(case, SequenceAnswer(requests=[request(0, short, [unlike]), request(1, other, [7])]))


def _next(length: int) -> int:
    text = Text((Segment(family=0, length=length),), VOCABULARY)
    text.grow(length + 1)
    return text.tokens[length]


ROW = StepRow(
    request=0, slot=0, computed=0, scheduled=9, drafts=0, accepted=1, state_column=0, move=None, attention=(), mamba=()
)
CUT = msgspec.structs.replace(ROW, scheduled=4)


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
    made: Any = Agreeing.__new__(Agreeing)
    made.compared, made.ended = Compared(), 0
    planned, asked = iter(steps), iter(chances)
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
