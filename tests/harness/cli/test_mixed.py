"""Step sequences and kernel operations in one run: one after the other, and the worse exit status."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli import run as command
from harness.cli.application import app


@pytest.mark.parametrize(
    ("of_sequences", "of_kernels", "worse"), [(0, 0, 0), (1, 0, 1), (0, 3, 3), (3, 1, 1), (1, 4, 4), (4, 1, 4)]
)
def test_both_run_and_the_worse_status_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, of_sequences: int, of_kernels: int, worse: int
) -> None:
    ran: list[object] = []

    def sequences(**given: object) -> int:
        ran.append((given["target"], given["seed"], given["cases"]))
        return of_sequences

    def follow(settings: Any, report: str) -> int:
        ran.append((settings.target, settings.recipe.seed, settings.cases, settings.recipe.operations))
        return of_kernels

    monkeypatch.setattr(command.sequences, "run_sequences", sequences)
    monkeypatch.setattr(command, "follow", follow)
    arguments = ["run", "--ops", "sequences,postprocess", "-t", "builtin", "--seed", "3", "--cases", "5", "--out"]
    finished = CliRunner().invoke(app, [*arguments, str(tmp_path)])
    assert finished.exit_code == worse, finished.output
    assert ran == [("builtin", 3, 5), ("builtin", 3, 5, ("postprocess",))]
