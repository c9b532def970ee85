"""Replaying plain kernel cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from harness.case import Case, Check, encode_case
from harness.check.outcome import Outcome, Seconds, Verdict
from harness.cli import cases, options
from harness.engines.random import Recipe, case_at
from harness.subject.subject import Setting


class Worker:
    """Passes every case, and keeps what it was asked."""

    asked: ClassVar[list[Case]] = []

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None: ...

    def check(self, case: Case, relations: tuple[str, ...]) -> Outcome:
        self.asked.append(case)
        return Outcome((Verdict("precopy", "pass"),), Seconds())


@pytest.mark.parametrize("checks", [("races",), (), None])
def test_checks_that_are_asked_for_replace_those_of_the_case(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, checks: tuple[Check, ...] | None
) -> None:
    monkeypatch.setattr(cases, "CaseWorker", Worker)
    monkeypatch.setattr(cases, "prepare", lambda *_: None)
    monkeypatch.setattr(options, "wait_ready", lambda worker: None)
    monkeypatch.setattr(Worker, "asked", [])
    case = case_at(Recipe(1, ("reachable",), ("precopy",), "small"), 0)
    file = tmp_path / "case.json"
    file.write_bytes(encode_case(case))
    assert cases.replay_cases([file], Setting(target="builtin", executor="native", checks=checks), json=False) == 0
    (asked,) = Worker.asked
    assert asked.execution.checks == (case.execution.checks if checks is None else checks)
