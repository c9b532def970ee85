"""A context that an entry point bound by its first use is used only for that operation."""

from __future__ import annotations

from typing import Any

import pytest

from harness.case import PostprocessEntry
from harness.check.session import Session
from harness.engines.random import Recipe, case_at
from harness.kernels.executors.registry import create_executor
from harness.kernels.targets.builtin import BuiltinTarget


def test_the_next_case_has_its_own_context(executor_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe(seed=0, domains=("total",), operations=("postprocess-entry", "postprocess"), scale="small")
    cases = [case_at(recipe, index) for index in range(256)]
    firsts = [
        index
        for index, case in enumerate(cases[:-1])
        if index % 16 < 15
        and any(isinstance(operation, PostprocessEntry) and operation.first_use for operation in case.program[-1:])
    ]
    assert firsts, "some case ends with a first use, and the next one shares its layout"
    executor = create_executor(executor_name, ("memory",))
    target = BuiltinTarget(executor)
    bound: list[str] = []
    for name in ("bind", "bind_later"):
        real = getattr(target, name)

        def counted(*arguments: Any, _name: str = name, _real: Any = real) -> Any:
            bound.append(_name)
            return _real(*arguments)

        monkeypatch.setattr(target, name, counted)
    session = Session(target, executor)
    assert session.check(cases[firsts[0]]).failure is None
    assert bound[-1] == "bind_later"
    assert session.check(cases[firsts[0] + 1]).failure is None
    assert len(bound) > 1, "the context is not taken over"
