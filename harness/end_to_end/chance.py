"""Chance is that two requests share tokens which they only happen to have in common.

What a request says first may be the next token of another one's prompt: one time in 64 in a symbolic run, one in some
500 on an engine, whose model says other tokens. Where a release looks at tokens, both then do different things, and
both are right. (From 0.33 on, with EAGLE, the hash of a block covers the token behind it, too: one such token is
enough.)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, takewhile

from harness.case.sequence import Add, SequenceCase
from harness.end_to_end.messages import SequenceAnswer
from harness.oracles.states.texts import Text


def parted_by_chance(case: SequenceCase, answer: SequenceAnswer) -> bool:
    """Whether some two requests have more first tokens in common on the engine, as far as it got, than in the symbolic
    run, or fewer."""
    prompts = {event.request: event.prompt for event in case.events if isinstance(event, Add)}
    both: list[tuple[Sequence[int], Sequence[int]]] = []
    for said in answer.requests:
        text = Text(prompts[said.request], case.config.vocabulary)
        tokens = said.prompt_tokens + said.said
        text.grow(len(tokens))
        both.append((tokens, text.tokens[: len(tokens)]))
    return any(_common(one[0], other[0]) != _common(one[1], other[1]) for one, other in combinations(both, 2))


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many first tokens are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
