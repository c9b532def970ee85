"""The V2 host code of a release against our model of it: equal in every step, and an error of the model is noticed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import NamedTuple

import pytest

from tests.releases import with_scheduler

PROGRAM = """
import json, sys
from dataclasses import asdict
from collections import Counter
from harness.generators.sequences.configurations import Pins
from harness.kernels.targets.vllm.scheduling.loading import load
load(sys.argv[1])
import msgspec
import harness.sequences.runner_models as runs
from harness.kernels.targets.vllm.scheduling.engine import ReleaseLacks
from harness.kernels.targets.vllm.scheduling.rules_v2 import rules_v2
from harness.sequences.controls import Controls
from harness.sequences.faults import FAULTS
from harness.issues.registry import DEFAULT_FIXES
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.run import SequenceRun

def attempt(case, controls, fault=None):
    # The result of a case whose model may have a planted fault; None if the release lacks what it needs.
    try:
        run = SequenceRun(case, controls)
    except ReleaseLacks:
        return None
    if fault is not None:
        run.runner.model.rules = FAULTS[fault].change.rules(run.runner.model.rules)
    return run.run()

counters, violations, found = Counter(), [], {}
lacked = json.loads(sys.argv[2])
recipe = SequenceRecipe(77, Pins(runner="V2", **lacked))
for index in range(18):
    for fixes in (DEFAULT_FIXES, ()) if index % 2 else (DEFAULT_FIXES,):
        result = attempt(sequence_at(recipe, index), Controls(fixes=fixes))
        if result is None:
            continue
        if fixes:
            counters.update(result.counters)
        if result.violation and (fixes or result.violation.kind == "host-code-differs"):
            violations.append(result.violation.summary)
for name, fault in FAULTS.items():
    if name in ("chunk-off-grid", "chunk-never-ends"):  # faults of the scheduler
        continue
    for index in range(12):
        pins = msgspec.structs.replace(fault.pins, runner="V2", **lacked)
        result = attempt(sequence_at(SequenceRecipe(1, pins), index), Controls(fixes=DEFAULT_FIXES), name)
        if result is not None and result.violation is not None:
            found[name] = [result.violation.kind, result.violation.state]
            break
runs.host_code_refusal = lambda: "a reason"
results = (attempt(sequence_at(recipe, index), Controls()) for index in range(18))
alone = next(result for result in results if result is not None).counters
print(json.dumps([counters, violations, found, alone, asdict(rules_v2())], default=str))
"""

USUAL = ("vllm==0.33.0",)
"""Releases that other tests drive as well."""

LATER_FEATURES = {
    "vllm==0.25.0": {"retention": "dense", "checkpoints": False, "partial": False},
    "vllm==0.27.1": {"retention": "dense", "checkpoints": False},
    "vllm==0.28.0": {"retention": "dense", "checkpoints": False},
    "vllm==0.29.0": {"checkpoints": False},
    "vllm==0.30.0": {"checkpoints": False},
    "vllm==0.31.0": {},
    "vllm==0.32.0": {},
}
"""Older releases, and the axes that avoid what they lack."""

CAME_WITH = {"removes_in_order": 29, "padded_tails": 30, "column_unit": 32, "zero_drafts": 32}
"""Minor version of the first release that has a rule."""
BEFORE = {"removes_in_order": False, "padded_tails": False, "column_unit": "ColumnUnit.SMALLEST", "zero_drafts": False}
SINCE = {"removes_in_order": True, "padded_tails": True, "column_unit": "ColumnUnit.MAMBA", "zero_drafts": True}


class Compared(NamedTuple):
    """The results of one release. `alone`: counters of a sequence whose host code could not run."""

    release: str
    counters: dict[str, int]
    violations: list[str]
    found: dict[str, list[str]]
    alone: dict[str, int]
    rules: dict[str, bool | str]


@pytest.fixture(
    scope="module",
    params=[
        *USUAL,
        *(pytest.param(name, marks=pytest.mark.slow) for name in LATER_FEATURES if name not in USUAL),
    ],
)
def compared(request: pytest.FixtureRequest) -> Compared:
    """Some sequences of a release, with known issues and without, and the findings when only the model has a fault."""
    name = with_scheduler(request.param)
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    lacked = json.dumps(LATER_FEATURES.get(name, {}))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, lacked], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return Compared(name, *json.loads(done.stdout.splitlines()[-1]))


def test_the_model_agrees_with_the_host_code(compared: Compared) -> None:
    assert compared.violations == []
    counters = compared.counters
    assert counters["steps of V2 host code"] == counters["steps"] > 400
    assert counters["sequences of V2 host code"] > 10
    for name in ("preemptions", "admissions with a hit", "precopy moves", "postprocess moves", "moves with a bias"):
        assert counters[name] > 10, name


def test_a_faulty_model_is_noticed(compared: Compared) -> None:
    kinds = {name: kind for name, (kind, _) in compared.found.items()}
    seen = ("kept-columns", "accepted-not-reset", "plain-decode-row", "other-block-size")
    assert {name: kinds.get(name) for name in seen} == dict.fromkeys(seen, "host-code-differs")


def test_a_run_without_host_code_gives_the_reason(compared: Compared) -> None:
    assert compared.alone["V2 host code not run: a reason"] == 1
    assert "steps of V2 host code" not in compared.alone
    assert "sequences of V2 host code" not in compared.alone


def test_the_rules_of_a_release_are_recognised(compared: Compared) -> None:
    minor = int(compared.release.split(".")[1])
    for rule, first in CAME_WITH.items():
        assert compared.rules[rule] == (SINCE if minor >= first else BEFORE)[rule], rule
