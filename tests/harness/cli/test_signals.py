"""A campaign that is ended in any way leaves no worker behind and no file half-written."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.repro import read_repro
from tests.processes import children, is_running, wait_for, written_errors

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ROOT = Path(__file__).parents[3]


def handle_interrupts() -> None:
    """Restore Ctrl-C in a new process: processes that a shell starts in the background ignore it, and so do their
    children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def start(
    tmp_path: Path, broken_targets: Path, harness_command: Callable[..., list[str]]
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a `harness` command in its own process group; kills what is left of it afterwards."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: object, path: Path | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            harness_command(*arguments),
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(path or ROOT), str(ROOT), str(broken_targets)])},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=handle_interrupts,  # noqa: PLW1509 - no other thread starts processes here
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def check_ended(workers: list[int], folder: Path) -> None:
    wait_for(lambda: not any(is_running(worker) for worker in workers))
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".journal" and path.parent.name != "campaign":
            assert path.suffix == ".json"
            read_repro(path)


@pytest.mark.long
@pytest.mark.parametrize("whole_group", [True, False], ids=["ctrl-c", "parent-only"])
def test_an_interrupt_ends_everything(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path, executor_name: str, whole_group: bool
) -> None:
    """Ctrl-C reaches the whole process group, a supervisor's signal only the parent."""
    arguments = ["run", "-t", "builtin+wrong-group", "-e", executor_name, "--budget", "5m", "--scale", "small"]
    process = start(*arguments, "-j", 2 if whole_group else 1)
    drawn = tmp_path / "findings" / "as-drawn"
    wait_for(lambda: drawn.is_dir() and any(drawn.glob("*.json")))
    workers = children(process.pid)
    assert len(workers) == (2 if whole_group else 1)
    if whole_group:
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=1800)
    assert process.returncode == 130
    assert re.fullmatch(
        r"(harness: judging: .*\n)*"
        r"harness: interrupted: findings in \d+ cases?, as drawn in 'findings/as-drawn', after \d+ cases?; "
        r"resume with harness run --resume findings: for another 300 s, or with a new --budget, or --cases N in its "
        r"place\n",
        err,
    )
    check_ended(workers, tmp_path / "findings")


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_two_signals_at_once_are_one_end(first: signal.Signals) -> None:
    """Both are pending before either is handled."""
    program = f"""
import os, signal, sys, time
import harness.cli.application as application
both = (signal.SIGINT, signal.SIGTERM)
def run(interruption):
    signal.pthread_sigmask(signal.SIG_BLOCK, both)
    os.kill(os.getpid(), {int(first)})
    for number in both:
        os.kill(os.getpid(), number)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, both)
        time.sleep(60)
    except KeyboardInterrupt:
        print(interruption.word)
        sys.exit(interruption.status)
application.run = run
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
    signal.signal(number, handler)
from harness.cli.main import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) in [(130, "interrupted\n", ""), (143, "terminated\n", "")]


@pytest.mark.long
@pytest.mark.parametrize("pause", [0.0, 0.1, 0.25])
def test_an_impatient_interrupt_changes_nothing(
    start: Callable[..., subprocess.Popen[str]], executor_name: str, pause: float
) -> None:
    arguments = ["run", "-t", "builtin", "-e", executor_name, "--budget", "5m", "--scale", "small"]
    process = start(*arguments)
    assert process.stdout is not None
    assert any(line.startswith("builtin on ") for line in process.stdout)  # the campaign has started
    workers = children(process.pid)
    for _ in range(3):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(pause)
    _, err = process.communicate(timeout=1800)
    assert process.returncode == 130
    assert re.fullmatch(r"harness: interrupted(: no finding, after \d+ cases?; resume with .* in its place)?\n", err)
    wait_for(lambda: not any(map(is_running, workers)))


@pytest.mark.long
@pytest.mark.parametrize("module", ["typer", "harness.reports.terminal"])
def test_an_interrupt_while_the_command_loads(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path, module: str
) -> None:
    """A module that interrupts its importer takes the place of one that is just being imported."""
    (tmp_path / "sitecustomize.py").write_text(f"""
import os, signal, sys, time

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)

sys.meta_path.insert(0, Interrupting())
""")
    process = start("run", "-t", "builtin", "--cases", 1, path=tmp_path)
    out, err = process.communicate(timeout=1800)
    assert (process.returncode, out, err) == (130, "", "harness: interrupted\n")


@pytest.mark.long
def test_killing_the_parent_ends_a_worker_that_hangs(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path, executor_name: str
) -> None:
    """A hung worker never notices that its parent is gone."""
    process = start(
        *("run", "-t", "broken:hang", "-e", executor_name, "--ops", "precopy", "--scale", "small"),
        *("--cases", 2000, "--case-limit", "10m"),
    )

    def hanging() -> bool:
        """Whether the worker has reported it: its output goes into a file of the parent."""
        return any("hanging" in written_errors(worker) for worker in children(process.pid))

    wait_for(hanging)
    workers = children(process.pid)
    process.kill()
    process.communicate()
    check_ended(workers, tmp_path / "findings")


def test_killing_the_parent_ends_a_worker_that_loads(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path, executor_name: str
) -> None:
    process = start("run", "-t", "builtin", "-e", executor_name, "--cases", 2000)
    wait_for(lambda: bool(children(process.pid)))
    workers = children(process.pid)
    process.kill()
    process.communicate()
    check_ended(workers, tmp_path / "findings")
