"""Standard output that cannot be written never results in the status of findings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from harness.repro import read_repro, write_repro

Command = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-P", "-c", "from harness.cli.main import main; main()"]


@pytest.mark.parametrize("arguments", [["show", "FILE"], ["targets"]])
def test_a_closed_pipe(arguments: list[str], frozen: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    file = str(frozen / "wrong-group-minimal.json")
    ended = subprocess.run(
        [*COMMAND, *(file if argument == "FILE" else argument for argument in arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_no_space_left(unbuffered: str) -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [*COMMAND, "targets"],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (2, "harness: No space left on device\n")


@pytest.mark.parametrize("name", ["summary", "issue", "target"])
def test_a_sequence_file_cannot_control_the_terminal(command: Command, tmp_path: Path, name: str) -> None:
    document = json.loads((ROOT / "corpus/sequences/async-accepted-counts.json").read_text())
    place = {"summary": document["evidence"], "issue": document, "target": document["origin"]}[name]
    place[name] = "odd\x1b[2J\x07[red]"
    (tmp_path / "bug.json").write_text(json.dumps(document))
    status, out, err = command("show", tmp_path / "bug.json")
    assert (status, err) == (0, "")
    assert "odd?[2J?[red]" in out


@pytest.mark.parametrize("sequence", [False, True])
def test_an_error_about_a_file_cannot_control_the_terminal(
    command: Command, frozen: Path, tmp_path: Path, sequence: bool
) -> None:
    file = ROOT / "corpus/sequences/async-accepted-counts.json" if sequence else frozen / "wrong-group-minimal.json"
    document = json.loads(file.read_text())
    document["signature"]["\x1b[2J"] = 1
    (tmp_path / "bug.json").write_text(json.dumps(document))
    for name in ("show", "replay", "shrink", "sweep"):
        status, out, err = command(name, tmp_path / "bug.json")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "unknown field `?[2J`" in err


def test_a_cache_that_cannot_be_written_is_reported(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE_DIR", f"{os.devnull}/cache")
    status, _, err = command("cache", "list")
    assert (status, err) == (
        0,
        f"harness: {os.devnull}/cache cannot be written: nothing is kept in the cache this time\n",
    )


def test_a_narrow_encoding(frozen: Path, tmp_path: Path) -> None:
    repro = read_repro(frozen / "wrong-group-minimal.json")
    evidence = msgspec.structs.replace(repro.evidence, summary="caf\u00e9")
    write_repro(tmp_path / "bug.json", msgspec.structs.replace(repro, evidence=evidence))
    ended = subprocess.run(
        [*COMMAND, "show", str(tmp_path / "bug.json")],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "caf\\xe9\n" in ended.stdout
