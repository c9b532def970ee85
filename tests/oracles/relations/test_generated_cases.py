"""Relations over drawn cases: right kernels satisfy all of them, and each has something to say often enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from harness.check.session import Session
from harness.engines.random import Recipe, case_at
from harness.oracles.relations.registry import relations

CASES = 96


@pytest.mark.parametrize("domain", ["reachable", "total"])
def test_right_kernels_satisfy_every_relation(session_with: Callable[..., Session], domain: str) -> None:
    session = session_with()
    recipe = Recipe(0, (domain,), ("postprocess", "precopy"), "small")  # type: ignore[arg-type]
    said: Counter[str] = Counter()
    for index in range(CASES):
        outcome = session.check(case_at(recipe, index), tuple(relations()))
        assert outcome.failure is None, (index, outcome.signature)
        for verdict in outcome.relations:
            assert verdict.reason in (None, "relation-undefined"), (index, verdict)
            said[verdict.relation] += verdict.status == "pass"
    assert min(said[name] for name in relations()) >= CASES // 8, said
