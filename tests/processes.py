"""Processes as the system sees them: questions of tests about commands and workers that they start and kill (Linux)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def children(parent: int) -> list[int]:
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(number) for number in found]


def is_running(number: int) -> bool:
    """Whether a process exists and is not a zombie waiting for its parent."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def written_errors(number: int) -> str:
    """What a worker has written to its standard error, a file; at its very start that is still its parent's."""
    errors = Path(f"/proc/{number}/fd/2")
    try:
        return errors.read_text(errors="replace") if errors.is_file() else ""
    except OSError:
        return ""


def environment(number: int) -> dict[str, str]:
    """The environment variables of a process. The system shows none while it is being started."""
    variables = Path(f"/proc/{number}/environ")
    wait_for(variables.read_bytes)
    return dict(variable.split("=", 1) for variable in variables.read_text().split("\0") if variable)


def wait_for(condition: Callable[[], Any], seconds: float = 900.0) -> None:
    """Wait until a condition holds. The limit is generous: it only ends a test that would never end."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited for too long"
        time.sleep(0.005)
