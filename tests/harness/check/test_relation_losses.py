"""A variant that takes the worker down is the relation's finding: its name is in the signature, and replay checks
it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.case import Precopy
from harness.engines.random import Recipe, case_at

SIGNATURE = "precopy/relation:single-requests/crash-SIGSEGV/process/-"


def seed_of_a_larger_batch() -> int:
    """A seed whose first case is one V2 precopy of two requests or more."""

    def fits(seed: int) -> bool:
        recipe = Recipe(seed=seed, domains=("reachable",), operations=("precopy",), scale="small")
        (*_, last) = program = case_at(recipe, 0).program
        return len(program) == 1 and isinstance(last, Precopy) and last.runner == "V2" and len(last.rows) > 1

    return next(filter(fits, range(1000)))


@pytest.mark.long
@pytest.mark.usefixtures("broken_targets")
def test_a_crash_in_a_variant_is_the_relations_and_replays(harness: Callable[..., Any], tmp_path: Path) -> None:
    """The target breaks at V2 batches of one request, which the relation makes of larger ones."""
    done = harness(
        *("run", "--target", "broken:segfault", "--ops", "precopy", "--relations", "single-requests"),
        *("--seed", seed_of_a_larger_batch(), "--cases", 1, "--scale", "small", "--no-shrink", "--json"),
    )
    assert done.returncode == 1, done.stderr
    (found,) = json.loads(done.stdout)["findings"]
    assert found["signature"] == SIGNATURE
    path = tmp_path / found["repro"]

    replayed = harness("replay", path, "--target", "broken:segfault", "--json")
    assert replayed.returncode == 1
    answer = json.loads(replayed.stdout)
    assert (answer["answer"], answer["same"]) == ("FAILED", True)
