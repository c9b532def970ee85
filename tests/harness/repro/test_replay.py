"""Frozen files replay independent of the generators: FAILED where the fault is planted, FIXED where it is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from harness.kernel_cases.worker import CaseWorker
from harness.repro import Repro, read_repro, write_repro

FILES = sorted(path.name for path in Path(__file__).with_name("data").glob("*.json"))


def same(outcome: object, repro: Repro, executor: str) -> bool:
    """Whether the failure is the recorded one. Only a checking executor sees accesses."""
    signature = outcome.signature  # type: ignore[attr-defined]
    if repro.signature.oracle == "access" and executor != "native":
        return signature is not None
    return bool(signature == repro.signature)


def test_there_are_frozen_files() -> None:
    assert len(FILES) >= 4


@pytest.mark.long
@pytest.mark.parametrize("target", sorted({name.rsplit("-", 1)[0].removesuffix("-as") for name in FILES}))
def test_every_frozen_file_fails_on_its_mutated_target(frozen: Path, executor_name: str, target: str) -> None:
    repros = [read_repro(frozen / name) for name in FILES if name.startswith(target)]
    names = {repro.origin.target for repro in repros}
    assert names == {f"builtin+{target.removesuffix('-drawn')}"}
    with CaseWorker(names.pop(), executor_name, limit=120.0) as worker:
        worker.wait_ready()
        for repro in repros:
            assert same(worker.check(repro.case, instrumented=repro.signature.instrumented), repro, executor_name)


def test_every_frozen_file_is_fixed_without_the_fault(frozen: Path, executor_name: str) -> None:
    with CaseWorker("builtin", executor_name, limit=120.0) as worker:
        worker.wait_ready()
        for name in FILES:
            outcome = worker.check(read_repro(frozen / name).case)
            assert [verdict.status for verdict in outcome.verdicts] == ["pass"], name


@pytest.mark.long
def test_the_command_says_failed(
    frozen: Path, executor_name: str, harness: Callable[..., CompletedProcess[str]]
) -> None:
    file = frozen / "wrong-group-minimal.json"
    result = harness("replay", file, "-e", executor_name)
    assert (result.returncode, result.stderr) == (1, "")
    lines = result.stdout.splitlines()
    assert lines[0] == f"FAILED {file} on builtin+wrong-group ({executor_name})"
    assert lines[1].startswith("Diagnosis: as if every group read the block table of one of them")
    assert lines[2].startswith(read_repro(file).evidence.differences[0].place.partition(", element")[0])


@pytest.mark.long
def test_the_command_says_fixed_in_json(
    frozen: Path, executor_name: str, harness: Callable[..., CompletedProcess[str]]
) -> None:
    file = frozen / "wrong-group-as-drawn.json"
    result = harness("replay", file, "-t", "builtin", "-e", executor_name, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    answer = json.loads(result.stdout)
    assert (answer["answer"], answer["target"], answer["executor"]) == ("FIXED", "builtin", executor_name)
    assert answer["file"] == str(file)
    assert not answer["same"]
    said = harness("replay", file, "-t", "builtin", "-e", executor_name).stdout.splitlines()
    operation = read_repro(file).signature.operation
    assert [line for line in said if line.startswith("next ")] == [
        f"next harness run -t builtin --ops {operation} --fail-fast",
        f"next harness corpus add {file} --to corpus",
    ]


@pytest.mark.parametrize("name", FILES)
def test_writing_and_reading(frozen: Path, name: str, tmp_path: Path) -> None:
    repro = read_repro(frozen / name)
    path = tmp_path / "deep" / "folder" / repro.file_name
    write_repro(path, repro)
    assert read_repro(path) == repro
    text = path.read_bytes()
    write_repro(path, repro)
    assert path.read_bytes() == text
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_write_that_fails_leaves_the_old_file(frozen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (read_repro(frozen / f"wrong-group-{name}.json") for name in ("minimal", "as-drawn"))
    path = tmp_path / "finding.json"
    write_repro(path, one)

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_repro(path, other)
    assert read_repro(path) == one
    assert list(tmp_path.iterdir()) == [path]


def test_names_say_what_was_found(frozen: Path) -> None:
    repro = read_repro(frozen / "wrong-group-minimal.json")
    name = repro.file_name
    assert name.startswith("precopy-wrong-bytes-temporal-")
    assert name.endswith(".json")
    other = read_repro(frozen / "wrong-group-as-drawn.json")
    assert other.file_name != name
