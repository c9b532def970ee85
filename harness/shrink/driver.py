"""The driver runs passes over a failing case until none of them finds a smaller one that shows the same finding.

A plan decides what cases are, which of two is smaller, how one is judged, and what counts as the same finding: the
minimised case must not be a different bug, or one that "cannot happen". Each step makes the case smaller, so shrinking
ends. It is deterministic if the plan is."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from harness.case import InvalidCase
from harness.shrink.proposals import Pass, Proposal

HANGS = 6
"""A candidate that hangs costs its whole time limit, and one that takes too much memory two processes. After this many,
the case is small enough."""

Case = TypeVar("Case")
Result = TypeVar("Result")


class Judged(NamedTuple, Generic[Result]):
    """A candidate that was run. `same`: it shows the finding, and the driver continues from it. `other` names another
    finding that it shows instead, if that is worth keeping. `hung`: it took the whole time limit, or all memory."""

    result: Result
    same: bool
    other: str | None = None
    hung: bool = False


class Plan(Protocol[Case, Result]):
    """How findings of one subject are shrunk."""

    passes: Sequence[Pass[Case]]
    """In the order in which they run."""

    def encode(self, case: Case) -> bytes:
        """A text of the case, equal for equal cases."""

    def size(self, case: Case) -> tuple[Any, ...]:
        """The key that shrinking makes smaller; keys can be compared. A candidate that is not smaller is not run."""

    def require_valid(self, case: Case) -> None:
        """Raise InvalidCase if this is not a case, or one of another domain: it is not run."""

    def judge(self, case: Case) -> Judged[Result] | None:
        """Run a candidate; None if it could not be judged. Raises InvalidCase if it is outside the preconditions."""


class PassCounter(msgspec.Struct):
    """How often a pass was tried, and how often it helped."""

    name: str
    executions: int = 0
    accepted: int = 0


class Shrunk(msgspec.Struct, Generic[Case, Result]):
    """A minimal case, the result of its last execution, and the cost of finding it.

    `complete` is False if the budget or the time was exhausted first, or HANGS candidates hung. `others` are failing
    cases of other findings seen meanwhile.
    """

    case: Case
    result: Result
    executions: int
    seconds: float
    complete: bool
    passes: list[PassCounter]
    others: list[tuple[Case, Result]]


def shrink(
    case: Case, result: Result, plan: Plan[Case, Result], budget: int, until: float = float("inf")
) -> Shrunk[Case, Result]:
    """Shrink a case that gave `result`, with at most `budget` executions, and none that starts after `until`
    (`time.monotonic`)."""
    return _Shrinker(case, result, plan, budget, until).run()


class _Shrinker(Generic[Case, Result]):
    def __init__(self, case: Case, result: Result, plan: Plan[Case, Result], budget: int, until: float) -> None:
        self._until = until
        self._best, self._result = case, result
        self._plan, self._budget = plan, budget
        self._tried = {plan.encode(case)}
        self._size = plan.size(case)
        self._others: dict[str, tuple[Case, Result]] = {}
        self._executions = 0
        self._hangs = 0

    def run(self) -> Shrunk[Case, Result]:
        start = time.perf_counter()
        counters = [PassCounter(propose.__name__) for propose in self._plan.passes]
        improved = True
        while improved and not self._exhausted():
            improved = False
            for propose, counter in zip(self._plan.passes, counters, strict=True):
                while self._improve(propose(self._best), counter):
                    improved = True
        return Shrunk(
            self._best,
            self._result,
            self._executions,
            time.perf_counter() - start,
            not self._exhausted(),
            counters,
            list(self._others.values()),
        )

    def _improve(self, proposals: Iterator[Proposal[Case]], counter: PassCounter) -> bool:
        """Accept the first proposal that shows the same finding."""
        for proposal in proposals:
            if self._exhausted():
                return False
            candidate = self._new(proposal)
            if candidate is None:
                continue
            try:
                judged = self._plan.judge(candidate)
            except InvalidCase:
                continue
            self._executions += 1
            counter.executions += 1
            if judged is None:
                continue
            self._hangs += judged.hung
            if judged.same:
                self._best, self._result, self._size = candidate, judged.result, self._plan.size(candidate)
                counter.accepted += 1
                return True
            if judged.other is not None:
                self._others.setdefault(judged.other, (candidate, judged.result))
        return False

    def _new(self, proposal: Proposal[Case]) -> Case | None:
        """The candidate, if it is valid and was not tried before."""
        try:
            candidate = proposal()
            text = self._plan.encode(candidate)
            if text in self._tried or not self._plan.size(candidate) < self._size:
                return None
            self._plan.require_valid(candidate)
        except ValueError:  # InvalidCase, and what msgspec rejects
            return None
        self._tried.add(text)
        return candidate

    def _exhausted(self) -> bool:
        return self._executions >= self._budget or self._hangs >= HANGS or time.monotonic() >= self._until
