"""The shrinker runs passes over a failing case until none of them finds a smaller one that fails alike.

"Alike" is the same signature and, for a reachable finding, a case that is still reachable: the minimised case must
not be a different bug, nor one that "cannot happen". Which kind of state a race is seen in is often a matter of which
was there: where the same operation races in the same way with a plainer kind in the state's place, the finding goes by
that one, so that one race is one finding. A race that only one kind shows keeps it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec

from harness.case import Case, InvalidCase, decode_case, encode_case
from harness.check.outcome import Outcome, Signature
from harness.generators.reachability import require_reachable
from harness.shrink.passes import PASSES, REPLACING
from harness.shrink.proposals import Proposal

HANGS = 6
"""A candidate that hangs costs its whole time limit: after so many, the case is small enough."""

RACING_STATES = (("temporal", "-"), ("conv", "SD"), ("conv", "DS"))
"""What signatures of races call states, the plainest first."""

Judge = Callable[[Case], Outcome]
"""Judges a candidate. Raises InvalidCase if it is outside the preconditions."""


class PassCounter(msgspec.Struct):
    """How often a pass was tried and helped."""

    name: str
    executions: int = 0
    accepted: int = 0


class Shrunk(msgspec.Struct):
    """A minimal case, the outcome of its last execution, and what finding it took.

    `complete` is False if the budget ran out first, or HANGS candidates hung. `others` are failing cases of
    other signatures met on the way, but for those of the same race in less plain kinds of states.
    """

    case: Case
    outcome: Outcome
    executions: int
    seconds: float
    complete: bool
    passes: list[PassCounter]
    others: list[tuple[Case, Outcome]]


def shrink(case: Case, outcome: Outcome, judge: Judge, max_executions: int = 1000) -> Shrunk:
    """Shrink a case that failed with `outcome`. Deterministic, given a deterministic judge."""
    assert outcome.signature is not None
    return _Shrinker(case, outcome, outcome.signature, judge, max_executions).run()


def is_plainer(race: Signature, other: Signature) -> bool:
    """Whether two signatures are the same race, of which the first is in a plainer kind of state."""
    states = [(signature.object, signature.conv_layout) for signature in (race, other)]
    if race.oracle != "race" or not all(state in RACING_STATES for state in states):
        return False
    same = msgspec.structs.replace(race, object=other.object, conv_layout=other.conv_layout) == other
    return same and RACING_STATES.index(states[0]) < RACING_STATES.index(states[1])


class _Shrinker:
    def __init__(self, case: Case, outcome: Outcome, signature: Signature, judge: Judge, budget: int) -> None:
        self._best, self._outcome, self._signature = case, outcome, signature
        self._judge = judge
        self._budget = budget
        self._tried = {encode_case(case)}
        self._others: dict[str, tuple[Case, Outcome]] = {}
        self._executions = 0
        self._hangs = 0

    def run(self) -> Shrunk:
        start = time.perf_counter()
        counters = [PassCounter(propose.__name__) for propose in PASSES]
        improved = True
        while improved and not self._used_up():
            improved = False
            for propose, counter in zip(PASSES, counters, strict=True):
                while self._improve(propose(self._best), counter, replacing=propose in REPLACING):
                    improved = True
        return Shrunk(
            self._best,
            self._outcome,
            self._executions,
            time.perf_counter() - start,
            not self._used_up(),
            counters,
            list(self._others.values()),
        )

    def _improve(self, proposals: Iterator[Proposal], counter: PassCounter, *, replacing: bool) -> bool:
        """Accept the first proposal that fails alike. `replacing`: they put other kinds of states in place of those
        that there are."""
        for proposal in proposals:
            if self._used_up():
                return False
            try:
                candidate = proposal()
                if candidate.domain == "reachable":
                    require_reachable(candidate)
            except InvalidCase:
                continue
            text = encode_case(candidate)
            if text in self._tried:
                continue
            self._tried.add(text)
            try:
                decode_case(text)  # bounds of numbers are checked on the way in alone
                outcome = self._judge(candidate)
            except InvalidCase:
                continue
            self._executions += 1
            counter.executions += 1
            if outcome.signature is not None and outcome.signature.violation == "hang":
                self._hangs += 1
            same = outcome.signature == self._signature
            if outcome.signature is not None and (
                same or (replacing and is_plainer(outcome.signature, self._signature))
            ):
                self._best, self._outcome, self._signature = candidate, outcome, outcome.signature
                counter.accepted += 1
                return True
            if outcome.signature is not None and not is_plainer(self._signature, outcome.signature):
                self._others.setdefault(str(outcome.signature), (candidate, outcome))
        return False

    def _used_up(self) -> bool:
        return self._executions >= self._budget or self._hangs >= HANGS
