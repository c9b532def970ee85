"""A session is a resumable request as its client knows it: chunks of input, and the tokens that each was answered with.

Where a turn stops, by its number of tokens or by the stop token, its last token is dropped: it was sampled and never
computed. The tokens before it stay, and the next chunk of input continues them. What a scheduler counts or keeps of
that is not looked at here: tokens and ends of turns are those that the client gets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from harness.case.sequence import CONTINUATION, Segment
from harness.oracles.states.texts import Text


class Session:
    """One resumable request. `waiting`: its turn is over, and it waits for input. `closed`: no more input comes."""

    def __init__(self, prompt: tuple[Segment, ...], text: Text) -> None:
        self._vocabulary = text.vocabulary
        self._segments, self._shifts = list(prompt), [0] * len(prompt)
        self._given: list[int] = []
        self._chunks: deque[tuple[Segment, ...]] = deque()
        self.text = text
        self.waiting = False
        self.closed = False

    def input(self, prompt: tuple[Segment, ...]) -> bool:
        """A chunk of input arrives; an empty one is the last. Returns whether the next turn starts with it."""
        if not prompt:
            self.closed = True
            return False
        self._chunks.append(prompt)
        return self.waiting and self._start()

    def deliver(self, tokens: Sequence[int], over: bool) -> bool:
        """The client gets tokens, with which the turn is `over` or not. Returns whether the next turn starts."""
        self._given += tokens
        if not over:
            return False
        self.waiting = True
        return bool(self._chunks) and self._start()

    def _start(self) -> bool:
        kept = len(self._given) - 1
        if kept > 0:
            self._segments.append(Segment(family=CONTINUATION, length=kept))
            self._shifts.append(0)
        start = self.text.prompt_length + kept
        for segment in self._chunks.popleft():
            self._segments.append(segment)
            self._shifts.append(start)
        self.text = Text(tuple(self._segments), self._vocabulary, self._shifts)
        self._given = []
        self.waiting = False
        return True


def chunk_tokens(prompt: tuple[Segment, ...], vocabulary: int) -> list[int]:
    """The tokens of a chunk of input."""
    return Text(prompt, vocabulary).tokens
