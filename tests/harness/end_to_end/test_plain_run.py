"""The plain run calculates what is looked at, and says the same whatever was looked at before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from harness.end_to_end.inside.plain_run import AHEAD, DueTokens, PlainRun


class Engine:
    """Says for each prompt its length, then one more, and so on; a step is a token."""

    def __init__(self) -> None:
        self.scheduler = self
        self.ran: list[tuple[int, int]] = []
        self._left = self._next = 0

    def watch_kernels(self) -> None:
        """There are none."""

    def add(self, name: str, prompt: list[int], outputs: int, *, best: bool) -> None:
        assert best
        self.ran.append((len(prompt), outputs))
        self._left, self._next = outputs, len(prompt)

    def has_requests(self) -> bool:
        return self._left > 0

    def step(self) -> list[Any]:
        self._left -= 1
        self._next += 1
        best = SimpleNamespace(logprobs=[[0.0, 2.0, 1.5]])
        return [SimpleNamespace(new_token_ids=[self._next - 1], new_logprobs=best)]


def test_more_tokens_follow_what_is_known() -> None:
    engine = Engine()
    plain = PlainRun(engine)  # type: ignore[arg-type]
    assert plain.after([9, 9], 3).tokens == [2, 3, 4]
    assert plain.after([9, 9], 2).tokens == [2, 3]
    assert plain.after([9, 9], 5) == ([2, 3, 4, 5, 6], [0.5] * 5)
    assert engine.ran == [(2, 3), (5, 2)]


def test_only_what_is_looked_at_is_calculated() -> None:
    engine = Engine()
    due = DueTokens(PlainRun(engine), [9, 9, 9], 40)  # type: ignore[arg-type]
    assert len(due) == 43
    assert due[:3] == [9, 9, 9]
    assert engine.ran == []
    assert due[3] == 3
    assert engine.ran == [(3, AHEAD)]
    assert due[: 3 + AHEAD + 1][-1] == 3 + AHEAD
    assert engine.ran[1:] == [(3 + AHEAD, AHEAD)]
    assert due[42] == 42
    assert sum(outputs for _, outputs in engine.ran) == 40
    assert due.after_prompt(2).tokens == [3, 4]
