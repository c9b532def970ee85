"""A variant that takes the worker down is the relation's finding: its name is in the signature, and replay asks it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SIGNATURE = "precopy/relation:single-requests/crash-SIGSEGV/process/-"


@pytest.mark.long
@pytest.mark.usefixtures("broken_targets")
def test_a_crash_in_a_variant_is_the_relations_and_replays(harness: Callable[..., Any], tmp_path: Path) -> None:
    """The target breaks at V2 batches of one request, which the relation makes of larger ones."""
    done = harness(
        *("run", "--target", "broken:segfault", "--ops", "precopy", "--relations", "single-requests"),
        *("--cases", 24, "--scale", "small", "--domain", "total", "--no-shrink", "--json"),
    )
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert told["cases"] == 24
    found = {finding["signature"]: finding["repro"] for finding in told["findings"]}
    assert SIGNATURE in found
    path = tmp_path / found[SIGNATURE]
    (operation,) = json.loads(path.read_text())["case"]["program"]
    assert len(operation["rows"]) > 1

    replayed = harness("replay", path, "--target", "broken:segfault", "--json")
    assert replayed.returncode == 1
    answer = json.loads(replayed.stdout)
    assert (answer["answer"], answer["same"]) == ("FAILED", True)
