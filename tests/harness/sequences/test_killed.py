"""A campaign of sequences that is interrupted while the release loads, and one on a release that is killed.

Tests for campaigns of all subjects are in tests/harness/campaign.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.sequences.subject import StepSequences
from tests.processes import children, is_running, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ROOT = Path(__file__).resolve().parents[3]
STAND_IN = Path(__file__).with_name("stand_in_release.py")

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `harness run` on sequences, in its own process group; what is left afterwards is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(command: list[str], *arguments: object, how: str = "") -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*command, "run", "--ops", "sequences", "--json", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
            | {"STAND_IN": how},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads here
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_an_interrupt_while_the_release_loads_is_one_line(start: Start) -> None:
    running = start([sys.executable, "-P", str(STAND_IN)], "-t", "vllm==0.33.0", "-j", 2, how="load:600000")
    wait_for(lambda: len(children(running.pid)) == 2)
    workers = children(running.pid)
    for _ in range(2):
        os.killpg(running.pid, signal.SIGINT)
    printed, errors = running.communicate(timeout=1800)
    assert (running.returncode, printed) == (130, "")
    assert errors == "harness: loading a stand-in ...\nharness: interrupted\n"
    wait_for(lambda: not any(map(is_running, workers)))


def test_a_release_that_loads_for_long_says_so(start: Start) -> None:
    running = start(
        [sys.executable, "-P", str(STAND_IN)], "-t", "vllm==0.33.0", "--cases", 1, how="load:500,patience:50"
    )
    printed, errors = running.communicate(timeout=300)
    assert json.loads(printed)["sequences"] == 1
    lines = errors.splitlines()
    assert lines[0] == "harness: loading a stand-in ..."
    still = [
        line
        for line in lines
        if re.fullmatch(r"harness: still loading after \d+ s, \d+ s of them on a processor", line)
    ]
    assert still


@pytest.mark.parametrize("whole_group", [True, False], ids=["timeout", "parent-only"])
def test_sigterm_ends_a_campaign_as_ctrl_c_does(start: Start, tmp_path: Path, whole_group: bool) -> None:
    """As sent by `timeout`, to all processes, or by a supervisor, to the parent only: findings are saved, and the
    summary says what was reached."""
    arguments = ("-t", "vllm==0.33.0", "--seed", 5, "--budget", "10h", "-j", 2)
    running = start([sys.executable, "-P", str(STAND_IN)], *arguments)
    journal = tmp_path / "findings" / StepSequences.journal

    def found() -> bool:
        """Whether a violation was counted, and something else after it."""
        return journal.is_file() and b'"signature"' in journal.read_bytes().rpartition(b"\n{")[0]

    wait_for(lambda: found() or running.poll() is not None)
    workers = children(running.pid)
    assert len(workers) == 2
    for _ in range(2):
        os.killpg(running.pid, signal.SIGTERM) if whole_group else running.terminate()
    printed, errors = running.communicate(timeout=300)
    assert running.returncode == 143
    summary = json.loads(printed)
    assert summary["exit_status"] == 143
    assert summary["ended_early"] == "terminated"
    assert re.fullmatch(
        r"harness: loading a stand-in ...\nharness: terminated: findings in [1-9]\d* sequences?, as drawn in "
        r"'findings/as-drawn', after \d+ sequences?; resume with harness run --resume findings: for another 36000 s, "
        r"or with a new --budget, or --cases N in its place\n",
        errors,
    )
    wait_for(lambda: not any(map(is_running, workers)))


@pytest.mark.slow
@pytest.mark.long
def test_a_killed_campaign_with_the_newest_release(
    start: Start, newest: str, harness_command: Callable[..., list[str]], tmp_path: Path
) -> None:
    """Known issues are left in, to be found."""

    def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
        printed, errors = process.communicate(timeout=900)
        assert process.returncode == 1, errors
        summary: dict[str, Any] = json.loads(printed)
        found = [{**finding, "repro": Path(finding["repro"]).name} for finding in summary["findings"]]
        return {name: summary[name] for name in ("sequences", "steps", "skipped", "counters")} | {"findings": found}

    plain = ["-t", newest, "--seed", 4, "--cases", 12, "--include-known", "--no-shrink", "--out"]
    journal = tmp_path / "killed" / StepSequences.journal
    running = start(harness_command(), *plain, journal.parent)
    wait_for(lambda: (journal.is_file() and journal.read_bytes().count(b"\n") > 4) or running.poll() is not None)
    running.kill()
    running.communicate()
    resumed = answer(start(harness_command(), *plain, journal.parent, "--resume"))
    whole = answer(start(harness_command(), *plain, tmp_path / "whole"))
    assert len(whole["findings"]) > 1
    assert resumed == whole
