"""Frozen repro files, and the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

DATA = Path(__file__).with_name("data")
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session")
def frozen() -> Path:
    """The folder of frozen files."""
    return DATA


@pytest.fixture
def document() -> dict[str, Any]:
    """A valid repro file as a JSON document, to be spoilt."""
    made = msgspec.json.decode((DATA / "wrong-group-minimal.json").read_bytes())
    assert isinstance(made, dict)
    return made


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Call it with the arguments of a `harness` command: exit status, standard output and standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        from harness.cli.main import main

        monkeypatch.setattr("sys.argv", ["harness", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        said = capsys.readouterr()
        return int(caught.value.code or 0), said.out, said.err

    return run
