"""Sessions of streaming input: which tokens stay where a turn ends, and where the next chunk stands."""

from __future__ import annotations

from harness.case.sequence import Segment
from harness.oracles.states.session import Session, chunk_tokens
from harness.oracles.states.texts import STOP, Text

VOCABULARY = 16
PROMPT = (Segment(family=0, length=4),)
CHUNK = (Segment(family=1, length=3),)


def session() -> Session:
    return Session(PROMPT, Text(PROMPT, VOCABULARY))


def test_the_last_token_of_a_turn_is_dropped() -> None:
    one = session()
    first = one.text
    first.grow(8)
    assert not one.deliver(first.tokens[4:5], over=False)
    assert not one.deliver(first.tokens[5:8], over=True)
    assert one.waiting
    assert one.input(CHUNK)
    assert not one.waiting
    assert one.text.tokens == first.tokens[:7] + chunk_tokens(CHUNK, VOCABULARY)
    assert one.text.prompt_length == 10
    assert one.text.name(9) == "4 of text 0, then 3 as the model continues, then 2 of text 1"


def test_a_turn_of_one_token_keeps_none() -> None:
    one = session()
    one.deliver([STOP], over=True)
    one.input(CHUNK)
    assert one.text.tokens == [*Text(PROMPT, VOCABULARY).tokens, *chunk_tokens(CHUNK, VOCABULARY)]


def test_chunks_wait_for_the_turn_and_have_the_same_tokens_wherever_they_stand() -> None:
    one = session()
    other = (Segment(family=1, length=2), Segment(family=2, length=2))
    assert not one.input(CHUNK)
    assert not one.input(other)
    one.text.grow(6)
    assert one.deliver(one.text.tokens[4:6], over=True)
    second = list(one.text.tokens)
    assert second[-3:] == chunk_tokens(CHUNK, VOCABULARY)
    one.text.grow(9)
    assert one.deliver(one.text.tokens[8:9], over=True)
    assert one.text.tokens == second + chunk_tokens(other, VOCABULARY)


def test_an_empty_chunk_closes_the_input() -> None:
    one = session()
    assert not one.input(())
    assert one.closed
