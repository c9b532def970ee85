"""A `harness run` whose processes are killed ends, or is resumed, with the findings of an undisturbed one."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.case import Precopy
from harness.engines.random import Recipe, case_at
from harness.kernel_cases.subject import KernelCases
from harness.repro import read_any
from harness.sequences.subject import StepSequences
from tests.processes import children, is_running, wait_for, written_errors

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ROOT = Path(__file__).resolve().parents[3]
STAND_IN = ROOT / "tests" / "harness" / "sequences" / "stand_in_release.py"
COUNT = 40

Start = Callable[..., "subprocess.Popen[str]"]


class Side:
    """A subject on the command line: 40 cases, some of them wrong. With `held`, one of them never ends, so that the
    campaign does not end before it is killed, on any machine."""

    name: str
    journal: str
    counted: tuple[str, ...]
    """The fields of its summary that must be the same in a resumed campaign."""

    program: tuple[object, ...] = (sys.executable, "-P", "-c", "from harness.cli.main import main; main()")
    """The start of the command line of `harness`."""

    def command(self, held: bool) -> tuple[list[object], dict[str, str]]:
        """The command line, and variables for the environment."""
        raise NotImplementedError


class Kernels(Side):
    name = "case"
    journal = KernelCases.journal
    counted = ("cases", "judged", "skipped", "launches", "regimes", "relations")

    def __init__(self, executor: str, broken_targets: Path) -> None:
        sys.path.insert(0, str(broken_targets))
        try:
            from broken_targets import is_trigger
        finally:
            sys.path.pop(0)

        def holds(index: int, seed: int) -> bool:
            recipe = Recipe(seed=seed, domains=("reachable",), operations=("postprocess", "precopy"), scale="small")
            moves = [one for one in case_at(recipe, index).program if isinstance(one, Precopy)]
            return any(is_trigger(move.runner, len(move.rows)) for move in moves)

        self._executor = executor
        self._seed = next(
            seed
            for seed in range(1000)
            if not any(holds(index, seed) for index in range(24)) and any(holds(index, seed) for index in range(24, 32))
        )

    def command(self, held: bool) -> tuple[list[object], dict[str, str]]:
        options = ("--seed", self._seed, "--scale", "small", "--relations", "none", "-e", self._executor)
        return (
            [*self.program, "run", "-t", "broken:hang+wrong-group", *options],
            {} if held else {"BROKEN_TARGETS_MENDED": "1"},
        )


class Sequences(Side):
    name = "sequence"
    journal = StepSequences.journal
    counted = ("sequences", "steps", "skipped", "counters")
    program = (sys.executable, "-P", STAND_IN)

    def __init__(self, executor: str, broken_targets: Path) -> None:
        """Not used."""

    def command(self, held: bool) -> tuple[list[object], dict[str, str]]:
        arguments = ("run", "--ops", "sequences", "-t", "vllm==0.33.0", "--seed", 5)
        return [*self.program, *arguments], {"STAND_IN": "hang:30" if held else ""}


@pytest.fixture(params=[Kernels, Sequences], ids=lambda side: side.name)
def side(request: pytest.FixtureRequest, executor_name: str, broken_targets: Path) -> Side:
    found: Side = request.param(executor_name, broken_targets)
    return found


def lines(side: Side, out: Path) -> int:
    """The number of cases in the journal of a folder; -1 if it has no first line."""
    journal = out / side.journal
    return journal.read_bytes().count(b"\n") - 1 if journal.is_file() else -1


def violations(side: Side, out: Path) -> int:
    """The number of cases with a finding in the journal of a folder."""
    journal = out / side.journal
    whole = journal.read_bytes().split(b"\n")[1:-1] if journal.is_file() else []
    return sum(json.loads(line).get("signature") is not None for line in whole)


def begin(side: Side, out: Path, *arguments: object, held: bool = False) -> subprocess.Popen[str]:
    """Start `harness run` in its own process group."""
    command, environment = side.command(held)
    plain = ("--cases", COUNT, "--case-limit", "10m", "--json", "--out", out)
    return launch([*command, *plain, *arguments], out.parent, environment)


def launch(command: list[object], folder: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    """Start a command in a folder, in its own process group."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [str(word) for word in command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads here
    )


@pytest.fixture
def start(side: Side) -> Iterator[Start]:
    """The function `begin`; processes that are left afterwards are killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: Any, **named: Any) -> subprocess.Popen[str]:
        started.append(begin(side, *arguments, **named))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def answer(side: Side, process: subprocess.Popen[str]) -> tuple[dict[str, Any], str]:
    """The part of the summary that must be the same for the same campaign, and standard error."""
    printed, errors = process.communicate(timeout=1800)
    assert process.returncode == 1, errors
    result: dict[str, Any] = json.loads(printed)
    for finding in result["findings"]:
        finding["repro"] = Path(finding["repro"]).name
        if finding.get("shrink"):
            del finding["shrink"]["seconds"]
    return {name: result[name] for name in (*side.counted, "findings", "faults")}, errors


def files(folder: Path) -> dict[str, Any]:
    """All files except for the journal, without times, half-written files and files that were moved aside."""
    found = {}
    for path in folder.rglob("*.json"):
        name = str(path.relative_to(folder))
        if not name.startswith(("earlier.", "campaign/")):
            found[name] = content = json.loads(path.read_bytes())
            if content["shrink"] is not None:
                del content["shrink"]["seconds"]
    return found


Outcome = tuple[dict[str, Any], dict[str, Any]]
"""The result of a campaign, and its files."""


@pytest.fixture(scope="module")
def undisturbed_sides() -> dict[str, Outcome]:
    return {}


@pytest.fixture
def undisturbed(side: Side, undisturbed_sides: dict[str, Outcome], tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The result of an undisturbed campaign."""
    if side.name not in undisturbed_sides:
        out = tmp_path_factory.mktemp("undisturbed") / "out"
        found, _ = answer(side, begin(side, out))
        assert len(found["findings"]) > 1
        undisturbed_sides[side.name] = found, files(out)
    return undisturbed_sides[side.name]


def kill(process: subprocess.Popen[str]) -> bool:
    """Kill only the parent of a campaign, as a machine out of memory does; its workers must end with it. Returns
    whether it was still running."""
    with_it = children(process.pid) if process.poll() is None else []
    process.kill()
    process.communicate()
    wait_for(lambda: not any(map(is_running, with_it)))
    return process.returncode == -signal.SIGKILL


@pytest.mark.kernel_cases_too
def test_a_killed_campaign_is_resumed_and_ends_the_same(
    side: Side, start: Start, tmp_path: Path, undisturbed: Outcome
) -> None:
    out = tmp_path / "killed"
    for reached, torn, resume in ((3, 0, []), (14, 7, ["--resume"])):  # the second time a line is cut off
        running = start(out, *resume, "-j", 2, held=True)
        wait_for(lambda reached=reached: lines(side, out) >= reached)
        assert kill(running)
        assert reached <= lines(side, out) < COUNT
        journal = (out / side.journal).read_bytes()
        (out / side.journal).write_bytes(journal[: len(journal) - torn])
    before = lines(side, out)
    resumed, errors = answer(side, start(out, "--resume"))
    assert (resumed, files(out)) == undisturbed
    assert re.search(rf"^harness: resuming after {side.name} \d+: {before} were run before$", errors, re.MULTILINE)


@pytest.mark.kernel_cases_too
@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_a_campaign_killed_at_random_moments_ends_the_same(
    side: Side, start: Start, tmp_path: Path, undisturbed: Outcome, kills: int
) -> None:
    """While it loads, judges, or shrinks."""
    moments = random.Random(kills)
    out = tmp_path / "killed"
    killed = 0
    while killed < kills:
        before = lines(side, out)
        running = start(out, *(["--resume"] if before >= 0 else []), "-j", moments.randrange(1, 3))
        reached = min(COUNT, before + moments.randrange(0, 2 * COUNT // kills))
        wait_for(lambda reached=reached, running=running: lines(side, out) >= reached or running.poll() is not None)
        time.sleep(moments.random() / 2)
        killed += kill(running)
    resumed, _ = answer(side, start(out, *(["--resume"] if lines(side, out) >= 0 else [])))
    assert (resumed, files(out)) == undisturbed


def test_a_campaign_killed_while_it_keeps_findings_ends_the_same(
    side: Side, start: Start, tmp_path: Path, undisturbed: Outcome
) -> None:
    out = tmp_path / "killed"
    running = start(out, "-j", 2)
    wait_for(lambda: any(out.glob("*.json")) or running.poll() is not None)
    kill(running)
    assert lines(side, out) == COUNT
    resumed, _ = answer(side, start(out, "--resume"))
    assert (resumed, files(out)) == undisturbed


def test_a_hanging_worker_ends_with_a_killed_campaign(side: Side, start: Start, tmp_path: Path) -> None:
    """It would never notice that the parent is gone."""
    running = start(tmp_path / "out", held=True)
    wait_for(lambda: any("hanging" in written_errors(child) for child in children(running.pid)))
    assert kill(running)


@pytest.mark.kernel_cases_too
@pytest.mark.parametrize(("times", "whole_group"), [(1, True), (3, False)], ids=["ctrl-c", "parent only, three times"])
def test_an_interrupt_ends_with_a_summary_and_leaves_no_process(
    side: Side, start: Start, tmp_path: Path, times: int, whole_group: bool
) -> None:
    out = tmp_path / "out"
    running = start(out, "-j", 2, held=True)
    wait_for(lambda: violations(side, out) >= 2)  # the newest may not be counted yet
    with_it = children(running.pid)
    for _ in range(times):
        if whole_group:
            os.killpg(running.pid, signal.SIGINT)
        else:
            running.send_signal(signal.SIGINT)
        time.sleep(0.05)
    printed, errors = running.communicate(timeout=1800)
    summary = json.loads(printed)
    assert (running.returncode, summary["exit_status"], summary["ended_early"]) == (130, 130, "interrupted")
    last = re.fullmatch(
        r"harness: interrupted: findings in (\d+) \w+, as drawn in '([^']+)', after (\d+) (\w+)s; "
        r"resume with harness run --resume (\S+)",
        errors.splitlines()[-1],
    )
    assert last, errors
    assert "Traceback" not in errors
    entries = [json.loads(line) for line in (out / side.journal).read_bytes().splitlines()[1:]]
    found = violations(side, out)
    assert (int(last[1]), int(last[3])) == (found, len(entries))
    assert sum(finding[f"{side.name}s"] for finding in summary["findings"]) == found
    assert summary[f"{side.name}s"] == len(entries)
    stats = json.loads((out / "campaign" / "stats.json").read_bytes())["campaigns"][side.name]
    assert (stats["phase"], stats["judged"], stats["exit_status"]) == ("ended", len(entries), 130)
    assert Path(last[2]) == out / "as-drawn"
    assert Path(last[5]) == out
    assert last[4] == side.name
    assert [read_any(path) for path in (out / "as-drawn").glob("*.json")]
    wait_for(lambda: not any(map(is_running, with_it)))


def killed_after_some_cases(side: Side, start: Start, folder: Path) -> Path:
    """The folder of a campaign whose parent was killed in the middle of judging."""
    out = folder / "out"
    running = start(out, held=True)
    wait_for(lambda: lines(side, out) >= 3)
    assert kill(running)
    return out


@pytest.mark.parametrize("option", ["--resume", "--resume-sequences"])
def test_what_cannot_be_resumed_is_one_line(side: Side, start: Start, tmp_path: Path, option: str) -> None:
    refused = start(tmp_path / "out", option)
    printed, errors = refused.communicate(timeout=1800)
    assert (refused.returncode, printed) == (2, "")
    assert errors.splitlines()[-1].startswith("harness: Invalid value for --resume: there is no ")
    assert "Traceback" not in errors
    assert not (tmp_path / "out").exists()


def test_the_option_has_the_name_that_it_had_for_sequences(
    side: Side, start: Start, tmp_path: Path, undisturbed: Outcome
) -> None:
    out = killed_after_some_cases(side, start, tmp_path)
    resumed, _ = answer(side, start(out, "--resume-sequences"))
    assert (resumed, files(out)) == undisturbed


@pytest.mark.kernel_cases_too
def test_its_folder_is_enough_to_resume_a_killed_campaign(
    side: Side, start: Start, tmp_path: Path, undisturbed: Outcome
) -> None:
    out = killed_after_some_cases(side, start, tmp_path)
    _, environment = side.command(held=False)
    again = launch([*side.program, "run", "--resume", out, "--json", "-j", 2], tmp_path, environment)
    resumed, _ = answer(side, again)
    assert (resumed, files(out)) == undisturbed


@pytest.mark.long
@pytest.mark.kernel_cases_too
def test_merged_shards_end_the_same(side: Side, start: Start, tmp_path: Path, undisturbed: Outcome) -> None:
    """Also if one of them was killed and resumed, and another has two workers."""
    outs = [tmp_path / f"shard-{number}" for number in (1, 2, 3)]
    _, environment = side.command(held=False)
    running = start(outs[1], "--shard", "2/3", "--no-shrink", held=True)
    wait_for(lambda: lines(side, outs[1]) >= 3)
    assert kill(running)
    counts = 0
    for number, out in enumerate(outs, 1):
        command: list[object] = ["--shard", f"{number}/3", "--no-shrink", "-j", 2 if number == 3 else 1]
        if number == 2:
            ending = launch([*side.program, "run", "--resume", out, "--json"], tmp_path, environment)
        else:
            ending = start(out, *command)
        printed, errors = ending.communicate(timeout=1800)
        assert ending.returncode in (0, 1, 3), errors
        counts += json.loads(printed)[f"{side.name}s"]
    assert counts == COUNT, "each case is in one shard"
    whole = tmp_path / "whole"
    merged, errors = answer(
        side, launch([*side.program, "merge", *outs, "--out", whole, "--json"], tmp_path, environment)
    )
    assert (merged, files(whole)) == undisturbed
    assert f"{COUNT} were run before" in errors
