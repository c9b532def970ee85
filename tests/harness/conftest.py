"""Targets that break, frozen repro files, and the command line in this process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[int, str, str]]

BROKEN = Path(__file__).with_name("broken_targets")


@pytest.fixture
def broken_targets(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let workers know the targets `broken:HOW` from now on: an installed package provides them."""
    path = os.pathsep.join(filter(None, [str(BROKEN), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)
    return BROKEN


@pytest.fixture(scope="session")
def frozen() -> Path:
    """The folder of frozen files."""
    return Path(__file__).parent / "repro" / "data"


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], without_waits: Callable[[str], str]
) -> Command:
    """Call it with the arguments of a `harness` command: exit status, standard output and standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        from harness.cli.main import main

        monkeypatch.setattr("sys.argv", ["harness", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        return int(caught.value.code or 0), without_waits(captured.out), without_waits(captured.err)

    return run
