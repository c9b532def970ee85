"""The V1 host code of a release against our model of it: equal in every step, and an edit of either is noticed."""

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
from collections import Counter
from harness.generators.sequences.configurations import Pins
from harness.kernels.targets.vllm.scheduling.loading import load, module
load(sys.argv[1])
import msgspec
from harness.sequences import judge
import harness.sequences.runner_models as runs
from harness.kernels.targets.vllm.scheduling.engine import ReleaseLacks
from harness.kernels.targets.vllm.scheduling.rewriting import rewritten
from harness.sequences.controls import Controls
from harness.sequences.faults import FAULTS
from harness.issues.registry import DEFAULT_FIXES
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.run import SequenceRun

def attempt(case, controls, fault=None, edit=()):
    # The result of a case whose model may have a planted fault, or whose host code may be edited.
    try:
        run = SequenceRun(case, controls)
    except ReleaseLacks:
        return None
    if fault is not None:
        run.runner.model.rules = FAULTS[fault].change.rules(run.runner.model.rules)
    kept = {name: getattr(runner, name) for name, _ in edit}
    for name, edited in edit:
        setattr(runner, name, edited)
    result = run.run()
    for name in kept:
        setattr(runner, name, kept[name])
    return result

def first(pins, fixes, **wrong):
    # The first of some sequences that shows a difference; without all fixes, known issues may show in others.
    for index in range(12):
        result = attempt(sequence_at(SequenceRecipe(1, pins), index), Controls(fixes=fixes), **wrong)
        if result is not None and result.violation is not None:
            found = [result.violation.kind, result.violation.state]
            if found[0] == "host-code-differs" or fixes == DEFAULT_FIXES:
                return found

# With one fix, the accepted counts are not those of the host code.
UNSETTLED = tuple(name for name in DEFAULT_FIXES if name != "async-accepted-counts")
runner = module("vllm.v1.worker.gpu_model_runner").GPUModelRunner
counters, violations, found, edits = Counter(), [], {}, {}
lacked = json.loads(sys.argv[2])
recipe = SequenceRecipe(77, Pins(runner="V1", **lacked))
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
    if name not in ("chunk-off-grid", "chunk-never-ends"):  # those are faults of the scheduler
        found[name] = first(msgspec.structs.replace(fault.pins, runner="V1", **lacked), DEFAULT_FIXES, fault=name)
for place, old, new, axes in json.loads(sys.argv[3]):
    edit = (place, rewritten(getattr(runner, place), ((old, new),)))
    edits[f"{place}: {new}"] = first(Pins(runner="V1", **lacked, **axes), UNSETTLED, edit=(edit,))
results = (judge.run(sequence_at(recipe, index), Controls(), None) for index in range(18))
runs.v1_host_code_refusal = lambda: "a reason"
alone = next(result for result in results if result.skipped is None).counters
runs.v1_host_code_refusal = lambda: None
runner._bookkeeping_sync = lambda self, *_: self.a_new_part
lacking = next(result for result in results if result.skipped is None).counters
print(json.dumps([counters, violations, found, edits, alone, lacking]))
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

ASYNCHRONOUS = {"spec_method": "mtp", "asynchronous": True}
SYNCHRONOUS = {"spec_method": "mtp", "asynchronous": False}
EDITS = (
    ("_prepare_inputs", "self.num_computed_tokens[:num_reqs] + num_sch", "num_sch", {}),
    ("_prepare_inputs", "num_scheduled_tokens[req_idx] == draft_len + 1", "draft_len > 1", SYNCHRONOUS),
    ("_prepare_inputs", "np.where(new_mask, 0, prev_idx)", "np.arange(num_reqs)", ASYNCHRONOUS),
    ("_update_states_after_model_execute", "(output_token_ids != -1).sum(dim=1)", "1", ASYNCHRONOUS),
    ("_bookkeeping_sync", "num_tokens_no_spec[req_idx] = end_idx", "num_tokens_no_spec[req_idx] += 1", SYNCHRONOUS),
    ("_copy_valid_sampled_token_count", "counts = valid_sampled_tokens_count", "counts = next_token_ids", ASYNCHRONOUS),
    ("_build_attention_metadata", "num_computed_tokens_cpu < num_prompt_tokens_cpu", "num_computed_tokens_cpu < 1", {}),
)
"""Edits of host code that only its run shows: a function, a text in it, its replacement, and axes that reach it."""


class Compared(NamedTuple):
    """The results of one release. `alone` and `lacking`: counters of sequences whose host code could not run, or turned
    out to need more than our stubs provide.
    """

    release: str
    counters: dict[str, int]
    violations: list[str]
    found: dict[str, list[str] | None]
    edits: dict[str, list[str] | None]
    alone: dict[str, int]
    lacking: dict[str, int]


@pytest.fixture(
    scope="module",
    params=[
        *USUAL,
        *(pytest.param(name, marks=pytest.mark.slow) for name in LATER_FEATURES if name not in USUAL),
    ],
)
def compared(request: pytest.FixtureRequest) -> Compared:
    """Some sequences of a release, with known issues and without, and the findings when only one side has a mistake."""
    name = with_scheduler(request.param)
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    lacked = json.dumps(LATER_FEATURES.get(name, {}))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, lacked, json.dumps(EDITS)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return Compared(name, *json.loads(done.stdout.splitlines()[-1]))


def test_the_model_agrees_with_the_host_code(compared: Compared) -> None:
    assert compared.violations == []
    counters = compared.counters
    assert counters["steps of V1 host code"] == counters["steps"] > 400
    assert counters["sequences of V1 host code"] > 10
    for name in ("preemptions", "admissions with a hit", "precopy moves", "postprocess moves", "moves with a bias"):
        assert counters[name] > 10, name


def test_a_faulty_model_is_noticed(compared: Compared) -> None:
    kinds = {name: result and result[0] for name, result in compared.found.items()}
    names = ("kept-columns", "accepted-not-reset", "plain-decode-row", "other-block-size")
    assert {name: kinds.get(name) for name in names} == dict.fromkeys(names, "host-code-differs")


def test_an_edit_of_the_host_code_is_noticed(compared: Compared) -> None:
    kinds = {name: result and result[0] for name, result in compared.edits.items()}
    assert kinds == dict.fromkeys(kinds, "host-code-differs")
    assert len(kinds) == len(EDITS)


def test_a_run_without_host_code_gives_the_reason(compared: Compared) -> None:
    assert compared.alone["V1 host code not run: a reason"] == 1
    reason = "this release's V1 runner needs a_new_part, which its stub does not have"
    assert compared.lacking[f"V1 host code not run: {reason}"] == 1
    for counters in (compared.alone, compared.lacking):
        assert "steps of V1 host code" not in counters
        assert "sequences of V1 host code" not in counters
        assert counters["steps"] > 0
