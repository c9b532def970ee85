"""Whatever becomes of the processes of a sequence campaign, it ends, or goes on, with the set it would have had.

Processes are real ones here; what they run is a stand-in for a release, and once the newest release.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.repro import SequenceRepro, read_sequence_repro
from harness.sequences.campaign import JOURNAL
from harness.sequences.recipe import SequenceRecipe, sequence_at

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ROOT = Path(__file__).resolve().parents[3]
STAND_IN = Path(__file__).with_name("stand_in_release.py")
SEED, SEQUENCES = 5, 40

Start = Callable[..., "subprocess.Popen[str]"]


def children(parent: int) -> list[int]:
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(number) for number in found]


def is_running(number: int) -> bool:
    """Whether a process is there, and no zombie waiting for somebody to ask."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def said(number: int) -> str:
    """What a child has said, which goes into a file; before it has one, its parent's standard error is its own."""
    errors = Path(f"/proc/{number}/fd/2")
    try:
        return errors.read_text(errors="replace") if errors.is_file() else ""
    except OSError:
        return ""


def wait_for(condition: Callable[[], Any], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "in vain"
        time.sleep(0.005)


def run_lines(out: Path) -> int:
    """Sequences that the journal in a folder tells of."""
    journal = out / JOURNAL
    return max(0, journal.read_bytes().count(b"\n") - 1) if journal.is_file() else 0


def begin(
    folder: Path, out: Path, *arguments: object, how: str = "", command: list[str] | None = None
) -> subprocess.Popen[str]:
    """Start `harness run` on sequences in `folder`, in a process group of its own."""
    plain = ["run", "--ops", "sequences", "-t", "vllm==0.33.0", "--seed", SEED, "--cases", SEQUENCES, "--json"]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [*(command or [sys.executable, "-P", str(STAND_IN)]), *map(str, [*plain, "--out", out, *arguments])],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "STAND_IN": how},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads here
    )


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`begin` in a folder of the test's; what is left afterwards is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: Any, **named: Any) -> subprocess.Popen[str]:
        started.append(begin(tmp_path, *arguments, **named))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a campaign that nobody disturbed."""
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="module")
def undisturbed(whole: Path) -> dict[str, Any]:
    """What it came to."""
    found, _ = answer(begin(whole, whole))
    assert (found["sequences"], len(found["findings"])) == (SEQUENCES, 2)
    return found


def answer(process: subprocess.Popen[str]) -> tuple[dict[str, Any], str]:
    """What has to be the same for the same campaign, and what standard error was told."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 1, err
    told: dict[str, Any] = json.loads(out)
    found = [{**finding, "repro": Path(finding["repro"]).name} for finding in told["findings"]]
    return {**{name: told[name] for name in ("sequences", "steps", "skipped", "counters")}, "findings": found}, err


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a campaign alone, as a machine out of memory does; its children have to go with it."""
    with_it = children(process.pid)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it was killed while it ran"
    assert with_it
    wait_for(lambda: not any(map(is_running, with_it)), 15)


def test_a_killed_campaign_goes_on_and_ends_the_same(
    start: Start, tmp_path: Path, whole: Path, undisturbed: dict[str, Any]
) -> None:
    out = tmp_path / "killed"
    for lines, torn, resume in ((9, 0, []), (21, 7, ["--resume-sequences"])):  # the second time a line is torn
        running = start(out, *resume, "-j", 2, how="slow:40")
        wait_for(lambda lines=lines: run_lines(out) >= lines)
        kill(running)
        assert lines <= run_lines(out) < SEQUENCES
        journal = (out / JOURNAL).read_bytes()
        (out / JOURNAL).write_bytes(journal[: len(journal) - torn])
    run_before = run_lines(out)
    resumed, err = answer(start(out, "--resume-sequences"))
    assert resumed == undisturbed
    assert err.startswith("harness: loading a stand-in ...\nharness: going on after sequence ")
    assert f": {run_before} were run before\n" in err
    assert files(out) == files(whole)


def test_a_campaign_killed_while_it_keeps_findings_ends_the_same(
    start: Start, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    out = tmp_path / "killed"
    running = start(out, "-j", 2, how="slow:10")
    wait_for(lambda: any(out.glob("*.json")))
    kill(running)
    assert run_lines(out) == SEQUENCES
    assert len(list(out.glob("*.json"))) == 1
    resumed, _ = answer(start(out, "--resume-sequences"))
    assert resumed == undisturbed


def test_a_child_that_somebody_kills_changes_nothing(start: Start, tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    running = start(tmp_path / "out", "-j", 2, how="slow:40")
    wait_for(lambda: run_lines(tmp_path / "out") >= 5)
    os.kill(children(running.pid)[0], signal.SIGKILL)
    found, err = answer(running)
    assert found == undisturbed
    assert err.count("harness: a child was ended from outside (crash-SIGKILL): sequence ") == 1
    # Killed while a finding is shrunk:
    running = start(tmp_path / "shrunk", how="slow:10")
    wait_for(lambda: run_lines(tmp_path / "shrunk") == SEQUENCES)
    os.kill(children(running.pid)[0], signal.SIGKILL)
    assert answer(running)[0] == undisturbed


def without(index: int, whole: dict[str, Any]) -> dict[str, Any]:
    """What a campaign comes to in which one sequence gives nothing: a child that is lost has no steps to tell of."""
    steps = sequence_at(SequenceRecipe(SEED), index).steps
    counters = {**whole["counters"], "steps": whole["counters"]["steps"] - steps}
    return {"sequences": whole["sequences"], "steps": whole["steps"] - steps, "counters.steps": counters["steps"]}


@pytest.mark.parametrize(("how", "kind"), [("hang", "process-hang"), ("crash", "process-crash-SIGABRT")])
def test_a_sequence_that_takes_its_child_down_is_a_finding(
    start: Start, tmp_path: Path, undisturbed: dict[str, Any], how: str, kind: str
) -> None:
    lost = 11
    out = tmp_path / "out"
    found, err = answer(start(out, "-j", 2, "--case-limit", "1s", how=f"{how}:{lost}"))
    (finding,) = (one for one in found["findings"] if kind in one["signature"])
    assert (finding["first_sequence"], finding["sequences"], finding["issue"]) == (lost, 1, None)
    rest = [one for one in found["findings"] if one is not finding]
    assert [one["repro"] for one in rest] == [one["repro"] for one in undisturbed["findings"]]
    assert {"sequences": found["sequences"], "steps": found["steps"], "counters.steps": found["counters"]["steps"]} == (
        without(lost, undisturbed)
    )
    assert f"{kind}/process/- stays as drawn" in err
    repro = read_sequence_repro(out / finding["repro"])
    assert isinstance(repro, SequenceRepro)
    assert repro.sequence == sequence_at(SequenceRecipe(SEED), lost)
    assert repro.shrink is None
    if how == "hang":
        assert "nothing heard for 1 seconds" in repro.evidence.details
        assert any("stand_in_release.py line" in line and "in stay" in line for line in repro.evidence.details)
    # Going on does not run it again: it is told from the journal.
    assert answer(start(out, "--resume-sequences", "--case-limit", "10m", how=f"{how}:{lost}"))[0] == found


def test_a_hanging_child_ends_with_a_killed_campaign(start: Start, tmp_path: Path) -> None:
    """It would never notice that nobody listens."""
    running = start(tmp_path / "out", how="hang:2")

    def hanging() -> bool:
        return any("hanging" in said(child) for child in children(running.pid))

    wait_for(hanging)
    kill(running)


@pytest.mark.parametrize("whole_group", [True, False], ids=["ctrl-z", "child-only"])
def test_what_was_stopped_is_no_hang(
    start: Start, tmp_path: Path, undisturbed: dict[str, Any], whole_group: bool
) -> None:
    running = start(tmp_path / "out", "--case-limit", "1.5s", how="slow:20")
    wait_for(lambda: run_lines(tmp_path / "out") >= 5)
    stop = os.killpg if whole_group else os.kill
    number = running.pid if whole_group else children(running.pid)[0]
    stop(number, signal.SIGSTOP)
    time.sleep(4)
    stop(number, signal.SIGCONT)
    found, err = answer(running)
    assert found == undisturbed
    before_shrinking = err.partition("harness: looking for")[0]
    assert before_shrinking == "harness: loading a stand-in ...\n"


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("whole_group", [True, False], ids=["ctrl-c", "parent-only"])
def test_an_interrupt_is_one_line_and_leaves_nobody(
    start: Start, tmp_path: Path, times: int, whole_group: bool
) -> None:
    out = tmp_path / "out"
    running = start(out, "-j", 2, how="slow:20,hang:30")
    wait_for(lambda: run_lines(out) >= 5 and any(out.glob("as-drawn/*.json")))
    with_it = children(running.pid)
    for _ in range(times):
        if whole_group:
            os.killpg(running.pid, signal.SIGINT)
        else:
            running.send_signal(signal.SIGINT)
        time.sleep(0.05)
    said, err = running.communicate(timeout=60)
    assert (running.returncode, said) == (130, "")
    last = re.fullmatch(
        r"harness: loading a stand-in \.\.\.\n"
        r"harness: interrupted: (\d+) violations?, as drawn in (\S+), after (\d+) sequences; "
        r"go on with the same command and --resume-sequences\n",
        err,
    )
    assert last, err
    lines = [json.loads(line) for line in (out / JOURNAL).read_bytes().splitlines()[1:]]
    violations = sum(line["signature"] is not None for line in lines)
    assert int(last[1]) in (violations, violations + 1), "one may be saved that the journal does not tell of yet"
    assert len(lines) in (int(last[3]), int(last[3]) + 1)
    assert Path(last[2]) == out / "as-drawn"
    assert [read_sequence_repro(path) for path in (out / "as-drawn").iterdir()]
    wait_for(lambda: not any(map(is_running, with_it)), 15)


def test_what_cannot_be_gone_on_with_is_one_line(start: Start, tmp_path: Path) -> None:
    refused = start(tmp_path / "out", "--resume-sequences")
    said, err = refused.communicate(timeout=60)
    assert (refused.returncode, said, err.count("\n")) == (2, "", 1)
    assert err.startswith("harness: Invalid value for --resume-sequences: there is no ")
    assert not (tmp_path / "out").exists()


def test_so_it_is_while_the_release_loads(start: Start, tmp_path: Path) -> None:
    running = start(tmp_path / "out", "-j", 2, how="load:60000")
    wait_for(lambda: len(children(running.pid)) == 2)
    with_it = children(running.pid)
    for _ in range(2):
        os.killpg(running.pid, signal.SIGINT)
    said, err = running.communicate(timeout=60)
    assert (running.returncode, said) == (130, "")
    assert err == "harness: loading a stand-in ...\nharness: interrupted\n"
    wait_for(lambda: not any(map(is_running, with_it)), 15)


def test_a_killed_campaign_with_the_newest_release(
    start: Start, newest: str, harness_command: Callable[..., list[str]], tmp_path: Path
) -> None:
    """Known issues are left in, to be found."""
    plain = ["-t", newest, "--seed", 4, "--cases", 12, "--include-known", "--no-shrink"]
    whole, _ = answer(start(tmp_path / "whole", *plain, command=harness_command()))
    assert len(whole["findings"]) > 1
    running = start(tmp_path / "killed", *plain, command=harness_command())
    wait_for(lambda: run_lines(tmp_path / "killed") >= 4)
    kill(running)
    assert 4 <= run_lines(tmp_path / "killed") <= 12
    resumed, _ = answer(start(tmp_path / "killed", *plain, "--resume-sequences", command=harness_command()))
    assert resumed == whole
