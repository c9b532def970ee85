"""This engine draws cases with Hypothesis: the same generators, driven by a search that learns from what it has tried.

It has two uses: `@given(cases(...))` in tests, with Hypothesis's database and its own shrinking, and single-worker runs
(`harness run --engine hypothesis`), whose findings are treated as all others: Hypothesis does not shrink them, and they
do not end its search. The search adapts, so that a case is not a function of its number.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from harness.case import Case, Domain, encode_case
from harness.engines.random import Policies, Recipe, with_execution
from harness.generators.cases import KindName, Scale, draw_case, draw_layout
from harness.generators.draw import Draw

ROUND = 1000
"""Cases after which the search starts afresh: it remembers every one of them."""

_BITS = 7
"""Precision of a probability, in binary digits."""


_FLIPS = st.booleans()


class HypothesisDraw(Draw):
    """Decisions that Hypothesis makes, records, replays and shrinks."""

    def __init__(self, draw: DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        if low > high:
            raise ValueError(f"no integer from {low} to {high}")
        return low if low == high else self._draw(st.integers(low, high))

    def boolean(self, probability: float = 0.5) -> bool:
        if probability <= 0 or probability >= 1:
            return probability >= 1
        # Fair flips are compared with the binary digits of `1 - probability` until one differs. An integer and a
        # threshold would do, but then nearly all the changes that Hypothesis tries would change nothing.
        rest = min(max(round((1 - probability) * 2**_BITS), 1), 2**_BITS - 1)
        for bit in reversed(range(_BITS)):
            flip = self._draw(_FLIPS)
            if flip != bool(rest >> bit & 1):
                return flip
        return True


@st.composite
def _cases(
    draw: DrawFn,
    domains: Sequence[Domain],
    operations: Sequence[KindName],
    scale: Scale,
    policies: Policies,
) -> Case:
    decisions = HypothesisDraw(draw)
    domain = decisions.choice(domains)
    plan = draw_layout(decisions, domain, scale)
    return with_execution(
        decisions,
        draw_case(decisions, plan, domain, operations, scale),
        policies,
        high=decisions.integer(1, 4) == 1,
    )


def cases(
    domain: Domain | Sequence[Domain] = "reachable",
    operations: Sequence[KindName] = ("postprocess", "precopy"),
    scale: Scale = "small",
    policies: Policies | None = None,
) -> SearchStrategy[Case]:
    """A strategy for cases of a domain, or of one of several, made of `operations`."""
    return _cases(
        (domain,) if isinstance(domain, str) else tuple(domain), tuple(operations), scale, policies or Policies()
    )


class _Enough(BaseException):
    """Leaves Hypothesis, which would take an Exception for a failing example."""


class Stalled(Exception):
    """Hypothesis finds no further cases; the message says how many there were."""


Judge = Callable[[int, Case, float], bool]
"""Called with the number of a case, the case, and the seconds that drawing it took; False ends the search."""


def explore(recipe: Recipe, start: int, stop: int, deadline: float, judge: Judge) -> int:
    """Judge cases numbered `start .. stop - 1` until the deadline (`time.monotonic`). Returns the number of the next
    one.

    The search is seeded with the recipe's seed and the number it starts from. Raises Stalled, and anything that `judge`
    raises.
    """
    search = _Search(recipe, start, stop, deadline, judge)
    while not search.over:
        first = search.index
        search.round()
        if search.index == first and not search.over:
            raise Stalled(f"Hypothesis drew no new case after number {first}")
    return search.index


class _Search:
    """Rounds of Hypothesis. Different choices may result in the same case, which is judged once."""

    def __init__(self, recipe: Recipe, start: int, stop: int, deadline: float, judge: Judge) -> None:
        self.index = start
        self.over = start >= stop
        self._recipe, self._stop, self._deadline, self._judge = recipe, stop, deadline, judge
        self._seen: set[bytes] = set()
        self._failure: Exception | None = None

    def round(self) -> None:
        """Judge the cases of one search, at most ROUND of them."""
        recipe = self._recipe
        self._began = time.perf_counter()
        search = given(cases(recipe.domains, recipe.operations, recipe.scale, recipe))(self._next)
        search = seed(f"{recipe.seed}/{self.index}")(search)
        search = settings(
            max_examples=ROUND,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
        )(search)
        try:
            search()
        except _Enough:
            self.over = True
            if self._failure is not None:
                raise self._failure from None

    def _next(self, case: Case) -> None:
        if time.monotonic() >= self._deadline:
            raise _Enough
        digest = hashlib.blake2b(encode_case(case), digest_size=16).digest()
        if digest in self._seen:
            return
        self._seen.add(digest)
        try:
            go_on = self._judge(self.index, case, time.perf_counter() - self._began)
        except Exception as error:  # not a failing example, and of no use if repeated
            self._failure = error
            raise _Enough from error
        self.index += 1
        if not go_on or self.index >= self._stop:
            raise _Enough
        self._began = time.perf_counter()
