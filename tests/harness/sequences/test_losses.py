"""Sequences that take their process down: when that is the answer already, and when a campaign goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.sequences.campaign import FIRST_LOSSES, JOURNAL
from harness.sequences.controls import Controls
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.worker import SequenceWorker

ROOT = Path(__file__).resolve().parents[3]
STAND_IN = Path(__file__).with_name("stand_in_release.py")
SEED, SEQUENCES = 5, 12


def run(out: Path, *arguments: object, lost: Iterable[int], how: str = "crash", more: str = "") -> dict[str, Any]:
    """What `harness run` on the stand-in comes to where the sequences `lost` take their process down; `told` is what
    standard error was told."""
    plain = ["run", "--ops", "sequences", "-t", "vllm==0.33.0", "--seed", SEED, "--cases", SEQUENCES, "--out", out]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    stand_in = ",".join([*(f"{how}:{index}" for index in lost), more])
    done = subprocess.run(
        [sys.executable, "-P", str(STAND_IN), *map(str, [*plain, "--json", *arguments])],
        env={**os.environ, "PYTHONPATH": path, "STAND_IN": stand_in},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "told": done.stderr.splitlines()}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_release_that_loses_every_sequence_is_known_by_the_first(tmp_path: Path, workers: int) -> None:
    found = run(tmp_path, "-j", workers, lost=range(SEQUENCES))
    lost = found["sequences"]
    assert FIRST_LOSSES <= lost < FIRST_LOSSES + workers
    why = f"each of the first {FIRST_LOSSES} sequences took its process down (crash-SIGABRT)"
    assert found["ended_early"] == why
    assert [line for line in found["told"] if "early" in line] == [f"harness: the campaign ends early: {why}"]
    (finding,) = found["findings"]
    assert finding["signature"] == "sequence/meaning/process-crash-SIGABRT/process/-"
    assert (finding["first_sequence"], finding["sequences"]) == (0, lost)
    assert Path(finding["repro"]).is_file()
    journal = (tmp_path / JOURNAL).read_bytes()
    resumed = run(tmp_path, "-j", workers, "--resume-sequences", lost=())
    assert (resumed["sequences"], resumed["findings"]) == (lost, found["findings"])
    assert (tmp_path / JOURNAL).read_bytes() == journal


@pytest.mark.parametrize(
    ("lost", "more"),
    [((0, 1, 2, 3, 5, 6), ""), ((0, 1, 2, 3), "exit:4,exit:5")],
    ids=["one comes through", "in different ways"],
)
def test_others_go_on(tmp_path: Path, lost: tuple[int, ...], more: str) -> None:
    found = run(tmp_path, "--no-shrink", lost=lost, more=more)
    assert (found["sequences"], found["ended_early"]) == (SEQUENCES, None)
    assert not [line for line in found["told"] if "early" in line]
    counts = {finding["signature"].split("/")[2]: finding["sequences"] for finding in found["findings"]}
    assert counts["process-crash-SIGABRT"] == len(lost)
    assert counts.get("process-exit-3", 0) == more.count("exit")


def test_what_is_skipped_did_not_come_through(tmp_path: Path) -> None:
    found = run(tmp_path, lost=(1, 3, 4, 6, 7, *range(9, SEQUENCES)), more="skip:0,skip:2,skip:5,skip:8")
    assert (found["sequences"], sum(found["skipped"].values())) == (8, 3)
    assert found["ended_early"] is not None


def test_a_loss_is_the_first_finding_too(tmp_path: Path) -> None:
    assert run(tmp_path, "--fail-fast", lost=(0, 1, 2, 3))["sequences"] == 1


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[SequenceWorker]:
    monkeypatch.setenv("STAND_IN", "crash:0")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(SequenceWorker, "SERVES", (str(STAND_IN), "serve"))
    with SequenceWorker("vllm==0.33.0") as process:
        process.wait_ready()
        yield process


def test_a_lost_process_is_replaced_by_what_is_asked_next(process: SequenceWorker) -> None:
    lost, sound = (sequence_at(SequenceRecipe(SEED), index) for index in (0, 1))
    for _ in range(2):
        result = process.check(lost, Controls())
        assert result.violation is not None
        assert result.violation.kind == "process-crash-SIGABRT"
        assert process._process.poll() is not None, "loading another one costs seconds, and nobody may need it"
    assert process.check(sound, Controls()).violation is None
    process.send_range(SequenceRecipe(SEED), 0, 1, Controls())
    assert process.receive()[0] == "lost"
    assert process.check(sound, Controls()).violation is None
    process.kill_hung()
    assert process.check(sound, Controls()).steps == sound.steps
