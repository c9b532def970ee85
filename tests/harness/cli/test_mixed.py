"""Step sequences and kernel operations in one run: one after the other, and the worse exit status."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli.application import app

run_module = import_module("harness.cli.run")


@pytest.mark.parametrize(
    ("of_sequences", "of_kernels", "worse"), [(0, 0, 0), (1, 0, 1), (0, 3, 3), (3, 1, 1), (1, 4, 4), (4, 1, 4)]
)
def test_both_run_and_the_worse_status_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, of_sequences: int, of_kernels: int, worse: int
) -> None:
    ran: list[object] = []

    def follow(subject: Any, settings: Any, report: str, written: Any) -> int:
        if subject.name == "sequence":
            ran.append((subject.target, subject.seed, settings.cases))
            return of_sequences
        ran.append((subject.target, subject.seed, settings.cases, subject.recipe.operations))
        return of_kernels

    monkeypatch.setattr("harness.sequences.subject.require_driven", lambda target, announce: target)
    monkeypatch.setattr(run_module, "follow", follow)
    arguments = ["run", "--ops", "sequences,postprocess", "-t", "builtin", "--seed", "3", "--cases", "5", "--out"]
    finished = CliRunner().invoke(app, [*arguments, str(tmp_path)])
    assert finished.exit_code == worse, finished.output
    assert ran == [("vllm==0.33.0", 3, 5), ("builtin", 3, 5, ("postprocess",))]


@pytest.mark.parametrize(("resume", "together"), [(False, [(), ("sequence",)]), (True, [("sequence", "case")] * 2)])
def test_the_first_campaign_moves_all_that_an_earlier_run_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, resume: bool, together: list[tuple[str, ...]]
) -> None:
    """Not what the run itself has written, or resumes."""
    given: list[tuple[str, ...]] = []

    def follow(subject: Any, settings: Any, report: str, written: Any) -> int:
        given.append(settings.together)
        return 0

    monkeypatch.setattr("harness.sequences.subject.require_driven", lambda target, announce: target)
    monkeypatch.setattr(run_module, "follow", follow)
    arguments = ["run", "--ops", "sequences,postprocess", "-t", "builtin", "--cases", "5", "--out", str(tmp_path)]
    finished = CliRunner().invoke(app, [*arguments, *(["--resume"] if resume else [])])
    assert finished.exit_code == 0, finished.output
    assert given == together
