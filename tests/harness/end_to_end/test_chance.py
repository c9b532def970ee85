"""When two requests share tokens by chance alone."""

from __future__ import annotations

import msgspec

from harness.case.sequence import Add, Segment, SequenceCase, SequenceConfig, Step
from harness.end_to_end.chance import parted_by_chance
from harness.end_to_end.messages import RequestTokens, SequenceAnswer
from harness.end_to_end.spelling import spelled
from harness.oracles.states.texts import Text, token_of_family

VOCABULARY = 64
SHORT, OTHER = (Segment(family=0, length=9),), (Segment(family=0, length=9), Segment(family=12, length=3))
CONFIG = SequenceConfig(
    runner="V1",
    block_size=32,
    num_spec=0,
    drafter_block_size=None,
    length_limit=64,
    budget=64,
    requests=2,
    num_blocks=64,
    vocabulary=VOCABULARY,
)
CASE = SequenceCase(
    config=CONFIG,
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
