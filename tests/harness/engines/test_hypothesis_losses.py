"""A case that takes the worker down during a search is known nevertheless, and the search continues."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("broken_targets")
def test_a_crash_names_its_case_and_the_search_continues(harness: Callable[..., Any], tmp_path: Path) -> None:
    done = harness(
        *("run", "--engine", "hypothesis", "--target", "broken:segfault", "--ops", "precopy"),
        *("--cases", 40, "--scale", "small", "--no-shrink", "--relations", "none", "--json"),
    )
    assert done.returncode == 1, done.stderr
    summary = json.loads(done.stdout)
    assert summary["cases"] == 40
    (finding,) = summary["findings"]
    assert finding["signature"] == "precopy/isolation/crash-SIGSEGV/process/-"
    case = json.loads((tmp_path / finding["repro"]).read_text())["case"]
    (operation,) = [operation for operation in case["program"] if operation["runner"] == "V2"]
    assert len(operation["rows"]) == 1


@pytest.mark.long
@pytest.mark.usefixtures("broken_targets")
def test_a_kill_from_outside_costs_a_search_nothing(harness: Callable[..., Any], tmp_path: Path) -> None:
    done = harness(
        *("run", "--engine", "hypothesis", "--target", "broken:killed-once", "--ops", "precopy"),
        *("--cases", 40, "--scale", "small", "--relations", "none", "--json"),
        BROKEN_TARGETS_MARK=str(tmp_path / "mark"),
    )
    assert (tmp_path / "mark").exists()
    assert done.returncode == 0, done.stderr
    assert "a worker was ended from outside (SIGKILL" in done.stderr
    assert json.loads(done.stdout)["cases"] == 40
