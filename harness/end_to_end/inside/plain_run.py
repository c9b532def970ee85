"""The plain run is the oracle: the same model without prefix caching and drafts, one request at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from harness.end_to_end.inside.engine import RunningEngine


class PlainTokens(NamedTuple):
    """What the model says after a prompt: the tokens, and for each the distance of its logit from the second best."""

    tokens: list[int]
    margins: list[float]


class PlainRun:
    """Says what tokens are due. Answers are kept, by prompt."""

    def __init__(self, engine: RunningEngine) -> None:
        self._engine = engine
        self._known: dict[tuple[int, ...], PlainTokens] = {}
        self._count = 0

    def after(self, prompt: Sequence[int], outputs: int) -> PlainTokens:
        """The first `outputs` tokens after a prompt."""
        key = tuple(prompt)
        known = self._known.get(key)
        if known is None or len(known.tokens) < outputs:
            known = self._known[key] = self._run(list(prompt), outputs)
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
