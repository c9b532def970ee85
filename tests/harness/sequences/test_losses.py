"""Sequences that take their process down: when that ends the campaign early, and how one is reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from harness.repro import SequenceRepro, read_any
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.subject import StepSequences

ROOT = Path(__file__).resolve().parents[3]
STAND_IN = Path(__file__).with_name("stand_in_release.py")
SEED, SEQUENCES = 5, 12
FIRST_LOSSES, JOURNAL = StepSequences.first_losses, StepSequences.journal
assert FIRST_LOSSES is not None


def run(out: Path, *arguments: object, lost: Iterable[int], how: str = "crash", more: str = "") -> dict[str, Any]:
    """The result of `harness run` on the stub where the sequences `lost` take their process down; `errors` are the
    lines of standard error."""
    plain = ["run", "--ops", "sequences", "-t", "vllm==0.33.0", "--seed", SEED, "--cases", SEQUENCES, "--out", out]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    stand_in = ",".join([*(f"{how}:{index}" for index in lost), more])
    done = subprocess.run(
        [sys.executable, "-P", str(STAND_IN), *map(str, [*plain, "--json", *arguments])],
        env={**os.environ, "PYTHONPATH": path, "STAND_IN": stand_in},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "errors": done.stderr.splitlines()}


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_a_release_that_loses_every_sequence_is_known_by_the_first(tmp_path: Path, workers: int) -> None:
    found = run(tmp_path, "-j", workers, lost=range(SEQUENCES))
    lost = found["sequences"]
    assert FIRST_LOSSES <= lost < FIRST_LOSSES + workers
    why = f"each of the first {FIRST_LOSSES} sequences took its process down (crash-SIGABRT)"
    assert found["ended_early"] == why
    assert [line for line in found["errors"] if "early" in line] == [f"harness: the campaign ends early: {why}"]
    (finding,) = found["findings"]
    assert finding["signature"] == "sequence/meaning/process-crash-SIGABRT/process/-"
    assert (finding["first_sequence"], finding["sequences"]) == (0, lost)
    assert Path(finding["repro"]).is_file()
    journal = (tmp_path / JOURNAL).read_bytes()
    resumed = run(tmp_path, "-j", workers, "--resume", lost=())
    assert (resumed["sequences"], resumed["findings"]) == (lost, found["findings"])
    assert (tmp_path / JOURNAL).read_bytes() == journal


@pytest.mark.parametrize(
    ("lost", "more"),
    [((0, 1, 2, 3, 5, 6), ""), ((0, 1, 2, 3), "exit:4,exit:5")],
    ids=["one comes through", "in different ways"],
)
def test_others_continue(tmp_path: Path, lost: tuple[int, ...], more: str) -> None:
    found = run(tmp_path, "--no-shrink", lost=lost, more=more)
    assert (found["sequences"], found["ended_early"]) == (SEQUENCES, None)
    assert not [line for line in found["errors"] if "early" in line]
    counts = {finding["signature"].split("/")[2]: finding["sequences"] for finding in found["findings"]}
    assert counts["process-crash-SIGABRT"] == len(lost)
    assert counts.get("process-exit-3", 0) == more.count("exit")


def test_what_is_skipped_did_not_come_through(tmp_path: Path) -> None:
    found = run(tmp_path, lost=(1, 3, 4, 6, 7, *range(9, SEQUENCES)), more="skip:0,skip:2,skip:5,skip:8")
    assert (found["sequences"], sum(found["skipped"].values())) == (8, 3)
    assert found["ended_early"] is not None


@pytest.mark.long
@pytest.mark.parametrize(("how", "kind"), [("hang", "process-hang"), ("crash", "process-crash-SIGABRT")])
def test_a_sequence_that_takes_its_worker_down_is_a_finding(tmp_path: Path, how: str, kind: str) -> None:
    """It stays as drawn. Only its steps are lost, which the worker could not report any more."""
    lost = 9
    sound = run(tmp_path / "sound", lost=())
    found = run(tmp_path / "out", "-j", 2, "--case-limit", "1s", lost=[lost], how=how)
    (finding,) = (one for one in found["findings"] if kind in one["signature"])
    assert (finding["first_sequence"], finding["sequences"], finding["issue"]) == (lost, 1, None)
    rest = [Path(one["repro"]).name for one in found["findings"] if one is not finding]
    assert rest == [Path(one["repro"]).name for one in sound["findings"]]
    case = sequence_at(SequenceRecipe(SEED), lost)
    assert (found["sequences"], found["steps"]) == (SEQUENCES, sound["steps"] - case.steps)
    path = Path(finding["repro"])
    costs = f"stays as drawn, for each run costs a process: harness shrink {path} continues"
    assert f"harness: {finding['signature']} {costs}" in found["errors"]
    _, repro = read_any(path)
    assert isinstance(repro, SequenceRepro)
    assert (repro.sequence, repro.shrink) == (case, None)
    if how == "hang":
        assert "no message for 1 seconds" in repro.evidence.details
        assert any("stand_in_release.py line" in line and "in stay" in line for line in repro.evidence.details)
    # Resuming does not run it again: the journal has its result.
    resumed = run(tmp_path / "out", "--resume", "--case-limit", "10m", lost=[lost], how=how)
    assert resumed["findings"] == found["findings"]
