"""The V2 host code of a release against our model of it: the same on every step, and a model that errs is noticed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
from collections import Counter
from harness.generators.sequences.configurations import Pins
from harness.kernels.targets.vllm.scheduling.loading import load
load(sys.argv[1])
from harness.sequences.controls import FAULTS, Controls
from harness.sequences.known import DEFAULT_FIXES
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.run import SequenceRun

counters, violations, found = Counter(), [], {}
for index in range(18):
    case = sequence_at(SequenceRecipe(77, Pins(runner="V2")), index)
    result = SequenceRun(case, Controls(fixes=DEFAULT_FIXES)).run()
    counters.update(result.counters)
    violations += [result.violation.summary] if result.violation else []
for name, fault in FAULTS.items():
    if name == "chunk-off-grid":
        continue
    for index in range(12):
        pins = Pins(**{field: getattr(fault.pins, field) for field in fault.pins.__struct_fields__} | {"runner": "V2"})
        run = SequenceRun(sequence_at(SequenceRecipe(1, pins), index), Controls(fixes=DEFAULT_FIXES))
        run.worker.model.fault = name
        result = run.run()
        if result.violation is not None:
            found[name] = [result.violation.kind, result.violation.state]
            break
print(json.dumps([counters, violations, found]))
"""


@pytest.fixture(scope="module")
def compared(newest: str) -> tuple[dict[str, int], list[str], dict[str, list[str]]]:
    """Counters and violations of some sequences, and what shows when the model alone has a planted fault."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, newest], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    counters, violations, found = json.loads(done.stdout.splitlines()[-1])
    return counters, violations, found


def test_the_model_says_what_the_host_code_says(
    compared: tuple[dict[str, int], list[str], dict[str, list[str]]],
) -> None:
    counters, violations, _ = compared
    assert violations == []
    assert counters["steps of V2 host code"] == counters["steps"] > 600
    for name in ("preemptions", "admissions with a hit", "precopy moves", "postprocess moves", "moves with a bias"):
        assert counters[name] > 10, name


def test_a_model_that_errs_is_noticed(compared: tuple[dict[str, int], list[str], dict[str, list[str]]]) -> None:
    found = compared[2]
    assert {name: kind for name, (kind, _) in found.items()} == dict.fromkeys(
        ("kept-columns", "accepted-not-reset", "plain-decode-row", "other-block-size"), "host-code-differs"
    )
