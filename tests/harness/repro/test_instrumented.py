"""A race is found, shrunk to one launch of one request or two, recorded with the checks that it needs, and
replayed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import msgspec
import pytest

from harness.case import Execution
from harness.kernels.executors.registry import executor_class
from harness.repro import read_repro
from harness.subject.registry import subject_class
from harness.subject.subject import Setting


@pytest.mark.long
@pytest.mark.skipif(executor_class("native").unavailable() is not None, reason="nothing to see with")
def test_a_race_from_run_to_replay(tmp_path: Path, harness: Callable[..., CompletedProcess[str]]) -> None:
    out = tmp_path / "findings"
    found = harness(
        *("run", "-t", "builtin+stale-accept", "-e", "native", "--ops", "postprocess", "--scale", "small"),
        *("--cases", 16, "--checks", "memory,races", "--relations", "none", "--json", "--out", out),
    )
    assert found.returncode == 1, found.stderr
    (file,) = [path for path in out.glob("*.json") if "between-programs" in path.name]
    repro = read_repro(file)
    assert str(repro.signature) == "postprocess/race/between-programs/accepted/-"
    assert repro.case.execution == Execution(), "as plain as can be, and races are among what is watched by default"
    (operation,) = repro.case.program
    assert len(operation.rows) == 1
    assert repro.evidence.summary.startswith("race between programs (0, ")

    again = harness("replay", file, "-e", "native", "--json")
    assert again.returncode == 1, again.stderr
    assert json.loads(again.stdout)["same"] is True
    unseen = harness("replay", file, "-e", "native", "--checks", "memory", "--json")
    assert json.loads(unseen.stdout)["same"] is False


@pytest.mark.long
def test_an_executor_that_cannot_look_does_not_say_fixed(monkeypatch: pytest.MonkeyPatch, frozen: Path) -> None:
    repro = read_repro(frozen / "lost-reset-minimal.json")
    race = msgspec.structs.replace(repro.signature, oracle="race", violation="between-programs")
    repro = msgspec.structs.replace(repro, signature=race)
    name = "native" if executor_class("native").unavailable() is None else "interpreter"
    for instrumented, answer in ((True, "FIXED"), (False, "SKIPPED")):
        monkeypatch.setattr(executor_class(name), "instrumented", instrumented)
        subject, _ = subject_class("case").of_file(repro, Setting(target="builtin", executor=name))
        with subject.new_worker() as worker:
            worker.wait_ready()
            replayed = subject.replayed(repro, subject.judge_file(worker, repro))
        assert replayed.answer == answer
