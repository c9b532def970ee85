"""Standard output that cannot take what is printed: one line and status 2, never the status of findings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from harness.repro import read_repro, write_repro

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-P", "-c", "from harness.cli.main import main; main()"]


@pytest.mark.parametrize("arguments", [["show", "FILE"], ["targets"]])
def test_nobody_reads(arguments: list[str], frozen: Path) -> None:
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
    assert (ended.returncode, ended.stderr) == (2, "harness: nobody reads standard output any more\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_no_space_left() -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [*COMMAND, "targets"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (2, "harness: No space left on device\n")


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
