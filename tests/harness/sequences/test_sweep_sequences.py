"""Sweeping step sequences: which releases a finding affects, and what cannot be asked."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from harness.check.outcome import Evidence, Signature
from harness.cli.sweep import _prepare
from harness.kernels.targets.vllm.scheduling import sources
from harness.repro import Origin, SequenceRepro, read_any, write_repro
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.subject.registry import read_file
from harness.sweep.affected import in_words
from harness.sweep.sweep import sweep

ROOT = Path(__file__).resolve().parents[3]
CORPUS = ROOT / "corpus"
STAND_IN = Path(__file__).with_name("stand_in_release.py")
SEED = 5

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def swept(folder: Path, *arguments: object, how: str = "", command: str = "sweep") -> subprocess.CompletedProcess[str]:
    """Run `harness sweep`, or another command, with the stub in place of releases."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-P", str(STAND_IN), command, str(folder), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, "STAND_IN": how},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of sequences: two that fail in the stub, with their signatures, and one that does not."""
    for index, violation in ((3, "wrong-state-read"), (5, "token-mismatch"), (6, "wrong-state-read")):
        repro = SequenceRepro(
            signature=Signature("sequence", "meaning", violation, "mamba", "-"),
            evidence=Evidence("something"),
            origin=Origin(target="vllm==0.33.0", executor="symbolic", harness_version="0", generator_version=1),
            issue="drained-queue" if index == 6 else None,
            sequence=sequence_at(SequenceRecipe(SEED), index),
        )
        write_repro(tmp_path / f"{index}.json", repro)
    return tmp_path


def answers(text: str, row: int) -> dict[str, str]:
    return {answer["target"]: answer["answer"] for answer in json.loads(text)["findings"][row]["answers"]}


@pytest.mark.long
def test_targets_that_cannot_be_driven_are_not_applicable(folder: Path) -> None:
    targets = "builtin,vllm==0.24.0,vllm==0.31.0,vllm==0.33.0"
    done = swept(folder, "-t", targets, "--json", how="refuse:0.31.0")
    assert done.returncode == 1, done.stderr
    absent = dict.fromkeys(("builtin", "vllm==0.24.0", "vllm==0.31.0"), "NOT APPLICABLE")
    assert answers(done.stdout, 1) == {**absent, "vllm==0.33.0": "FAILED"}
    assert answers(done.stdout, 2) == {**absent, "vllm==0.33.0": "FIXED"}
    first, second, third = json.loads(done.stdout)["findings"]
    details = {answer["target"]: answer["detail"] for answer in second["answers"]}
    assert "has no scheduler" in details["builtin"]
    assert "from 0.25.0 on" in details["vllm==0.24.0"]
    assert details["vllm==0.31.0"] == "a module does not import here"
    assert details["vllm==0.33.0"].startswith("step 1, request 1: ")
    assert [one["issue"] for one in (first, second, third)] == [None, None, "drained-queue"]
    loads = [line for line in done.stderr.splitlines() if "loading" in line]
    assert len(loads) == 2, "a target's worker runs all files"
    table = swept(folder, "-t", targets, "--markdown", how="refuse:0.31.0").stdout.splitlines()
    assert table[4] == (
        "| sequence/meaning/wrong-state-read/mamba/- [drained-queue] | reachable | - | - | - | PASSES |"
    )
    assert len(table) == 9


def test_one_file_costs_the_others_nothing(folder: Path) -> None:
    done = swept(folder, "-t", "vllm==0.33.0", "--json", "--case-limit", "1s", how="hang:3,break:5,crash:6")
    assert done.returncode == 1
    rows = [json.loads(done.stdout)["findings"][row]["answers"][0] for row in range(3)]
    assert [row["signature"] for row in rows] == [
        "sequence/meaning/process-hang/process/-",
        None,
        "sequence/meaning/process-crash-SIGABRT/process/-",
    ]
    assert [(row["answer"], row["same"], row["status"]) for row in rows] == [
        ("FAILED", False, 1),
        ("ERROR", False, 4),
        ("FAILED", False, 1),
    ]
    assert rows[1]["detail"] == "IndexError: a mistake of ours"


def test_missing_packages_are_announced_once(folder: Path) -> None:
    done = swept(folder, "-t", "vllm==0.31.0,vllm==0.32.0,vllm==0.33.0", how="lacks")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("harness: step sequences drive vLLM's own scheduler, which imports no_such_package: ")
    assert swept(folder, "-t", "builtin", "--json", how="lacks").returncode == 3, "nothing of it was asked for"


def test_kernel_cases_are_swept_without_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sources, "REQUIRED", ("no_such_package",))
    files = [(path, *read_file(path)) for path in (CORPUS / "shift-within-block-sd.json", folder / "3.json")]
    targets = ["vllm==0.32.0", "vllm==0.33.0"]
    kinds = [kind for _, kind, _ in files]
    monkeypatch.setattr(kinds[0], "announce_downloads", lambda *_: None)
    _prepare(kinds, targets)
    assert capsys.readouterr().err.count("install the extra") == 1
    (swept,) = sweep(files[1:], targets, "native", limit=1.0)
    assert [(answer.answer, answer.status) for answer in swept.answers] == [("ERROR", 2)] * 2
    assert {answer.detail for answer in swept.answers} == {"step sequences cannot run here: packages are missing"}


@pytest.mark.parametrize("command", ["replay", "shrink"])
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("", "names no target: say"),
        ("builtin", "names 'builtin', which has no scheduler: say"),
        ("builtin+wrong-group", "names 'builtin+wrong-group', which has no scheduler: say"),
        ("path:/tmp", "was found on 'path:/tmp', and a file may not choose"),
    ],
)
def test_a_file_that_names_no_scheduler_asks_for_one(folder: Path, command: str, target: str, message: str) -> None:
    file = folder / "3.json"
    _, repro = read_any(file)
    assert isinstance(repro, SequenceRepro)
    origin = msgspec.structs.replace(repro.origin, target=target)
    write_repro(file, msgspec.structs.replace(repro, origin=origin))
    done = swept(file, command=command)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"harness: {file}: the file")
    assert message in done.stderr


@contextlib.contextmanager
def started(folder: Path, targets: str, *more: str, how: str) -> Iterator[subprocess.Popen[str]]:
    """A running sweep, in its own process group, which ends with the block. It downloads nothing, so it does not
    announce that it would where the cache is empty."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with subprocess.Popen(
        [sys.executable, "-P", str(STAND_IN), "sweep", str(folder), "-t", targets, *more],
        env={**os.environ, "PYTHONPATH": path, "STAND_IN": how, "HARNESS_OFFLINE": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads here
    ) as running:
        try:
            yield running
        finally:
            with contextlib.suppress(ProcessLookupError):  # it is over, as it should be
                os.killpg(running.pid, signal.SIGKILL)


def test_a_sweep_that_loads_ends_at_once(folder: Path) -> None:
    """Loading takes longer than this test waits for the end."""
    with started(folder, "vllm==0.31.0,vllm==0.33.0", "-j", "2", how="load:7200000") as running:
        assert running.stderr is not None
        assert [running.stderr.readline() for _ in range(2)] == ["harness: loading a stand-in ...\n"] * 2
        running.send_signal(signal.SIGTERM)
        table, rest = running.communicate(timeout=1800)
    assert (running.returncode, rest) == (143, "harness: terminated: the table has what was known by then\n")
    assert table.count("NOT ASKED") == 6


def test_answers_come_as_they_are_known_and_ctrl_c_prints_them(folder: Path) -> None:
    with started(folder, "vllm==0.24.0,vllm==0.31.0,vllm==0.33.0", how="hang:6") as running:
        assert running.stderr is not None
        lines: list[str] = []
        while len(lines) < 6:
            lines.append(running.stderr.readline())
        os.killpg(running.pid, signal.SIGINT)
        table, rest = running.communicate(timeout=1800)
    assert lines == [
        *(f"harness: {folder / str(index)}.json on vllm==0.24.0: NOT APPLICABLE\n" for index in (3, 5, 6)),
        "harness: loading a stand-in ...\n",
        f"harness: {folder / '3.json'} on vllm==0.31.0: does not fail\n",
        f"harness: {folder / '5.json'} on vllm==0.31.0: FAILED\n",
    ]
    assert running.returncode == 130
    assert rest == "harness: interrupted: the table has what was known by then\n"
    rows = [line.split(maxsplit=1) for line in table.splitlines() if line.startswith("  vllm==")]
    words = {(row // 3, target): rest.split("  ")[0] for row, (target, rest) in enumerate(rows)}
    assert [words[row, "vllm==0.24.0"] for row in range(3)] == ["NOT APPLICABLE"] * 3
    assert [words[row, "vllm==0.31.0"] for row in range(3)] == ["PASSES", "FAILED", "NOT ASKED"]
    assert [words[row, "vllm==0.33.0"] for row in range(3)] == ["NOT ASKED"] * 3
    assert "Affects vllm 0.31.0; not applicable to vllm 0.24.0; not asked of vllm 0.33.0." in table


@pytest.mark.slow
@pytest.mark.release
def test_cases_and_sequences_on_releases(
    newest: str, older: str, harness: Command, executor_name: str, tmp_path: Path
) -> None:
    for file in ("shift-within-block-sd.json", "sequences/padded-to-limit.json", "sequences/split-block-size.json"):
        (tmp_path / Path(file).name).write_bytes((CORPUS / file).read_bytes())
    targets = ["builtin", "vllm==0.24.0", older, newest]
    done = harness("sweep", tmp_path, "-t", ",".join(targets), "-e", executor_name, "--json")
    assert done.returncode == 1, done.stderr
    rows = {Path(row["file"]).stem: row for row in json.loads(done.stdout)["findings"]}
    found = {name: [answer["answer"] for answer in row["answers"]] for name, row in rows.items()}
    assert found == {
        "padded-to-limit": ["NOT APPLICABLE", "NOT APPLICABLE", "FAILED", "FIXED"],
        "shift-within-block-sd": ["FIXED", "FAILED", "FAILED", "FIXED"],
        "split-block-size": ["NOT APPLICABLE", "NOT APPLICABLE", "NOT APPLICABLE", "FAILED"],
    }
    assert all(answer["same"] == (answer["answer"] == "FAILED") for row in rows.values() for answer in row["answers"])
    assert rows["padded-to-limit"]["affected"].startswith("Affects vllm 0.27.1, fixed in 0.33.0; not applicable to ")


@pytest.mark.release
@pytest.mark.long
def test_variations_of_an_unknown_issue_say_nothing_of_a_release(tmp_path: Path) -> None:
    """Whether another form shows an issue cannot be said without its fix, so none is counted as tried."""
    _, repro = read_any(CORPUS / "sequences" / "zero-draft-row.json")
    assert isinstance(repro, SequenceRepro)
    found = []
    for issue in ("zero-draft-row", "from-a-later-version"):
        write_repro(tmp_path / "one.json", msgspec.structs.replace(repro, issue=issue))
        (one,) = sweep(
            [(tmp_path / "one.json", *read_file(tmp_path / "one.json"))],
            ["vllm==0.33.0"],
            "native",
            limit=60,
            vary=True,
        )
        found.append(in_words(one.answers[0], one.answers))
    assert found == ["NOT AFFECTED", "PASSES"]
