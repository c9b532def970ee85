"""The plain run is the oracle: the same model without prefix caching and drafts, one request at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, overload

from harness.end_to_end.inside.engine import RunningEngine


class PlainTokens(NamedTuple):
    """What the model says after a prompt: the tokens, and for each the distance of its logit from the second best."""

    tokens: list[int]
    margins: list[float]


AHEAD = 16
"""Tokens that the plain run says at a time: most requests of a random sequence never get to their last token."""


class PlainRun:
    """Says what tokens are due. Answers are kept, by prompt."""

    def __init__(self, engine: RunningEngine) -> None:
        self._engine = engine
        self._known: dict[tuple[int, ...], PlainTokens] = {}
        self._count = 0

    def after(self, prompt: Sequence[int], outputs: int) -> PlainTokens:
        """The first `outputs` tokens after a prompt."""
        key = tuple(prompt)
        known = self._known.get(key, PlainTokens([], []))
        if len(known.tokens) < outputs:
            more = self._run([*prompt, *known.tokens], outputs - len(known.tokens))
            known = PlainTokens(known.tokens + more.tokens, known.margins + more.margins)
            self._known[key] = known
        return PlainTokens(known.tokens[:outputs], known.margins[:outputs])

    def _run(self, prompt: list[int], outputs: int) -> PlainTokens:
        engine = self._engine
        engine.watch_kernels()
        self._count += 1
        engine.add(f"plain {self._count}", prompt, outputs, best=True)
        tokens: list[int] = []
        margins: list[float] = []
        while engine.scheduler.has_requests():
            for output in engine.step():
                tokens += output.new_token_ids
                margins += _margins(output.new_logprobs)
        return PlainTokens(tokens, margins)


def _margins(logprobs: Any) -> list[float]:
    """The distance between the two best tokens, of each position. The first column is the sampled token's."""
    values = logprobs.logprobs
    return [float(row[1] - row[2]) if row[1] >= row[2] else 0.0 for row in values]


class DueTokens(Sequence[int]):
    """A prompt and what the model says after it, `most` tokens, of which only those are calculated that are looked
    at."""

    def __init__(self, plain: PlainRun, prompt: Sequence[int], most: int) -> None:
        self._plain, self._prompt, self._most = plain, list(prompt), most
        self._tokens = list(prompt)

    def __len__(self) -> int:
        return len(self._prompt) + self._most

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> list[int]: ...
    def __getitem__(self, place: int | slice) -> int | list[int]:
        last = place.indices(len(self))[1] if isinstance(place, slice) else place + 1
        self._grow(last - len(self._prompt))
        return self._tokens[place]

    def after_prompt(self, outputs: int) -> PlainTokens:
        """The first `outputs` tokens after the prompt."""
        return self._plain.after(self._prompt, outputs)

    def _grow(self, outputs: int) -> None:
        if len(self._tokens) < len(self._prompt) + outputs:
            rounded = min(-(-outputs // AHEAD) * AHEAD, self._most)
            self._tokens = self._prompt + self._plain.after(self._prompt, rounded).tokens
