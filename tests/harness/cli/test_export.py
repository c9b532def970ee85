"""`harness export` and `harness bisect` as commands: what they write, and one line for whatever is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.export.registry import forms
from tests.harness.conftest import Command

CORPUS = Path(__file__).resolve().parents[3] / "corpus"
CASE = CORPUS / "v2-accepted-race-temporal.json"
SEQUENCE = CORPUS / "sequences" / "left-out-row.json"


def test_a_form_goes_to_standard_output_or_into_a_file(command: Command, tmp_path: Path) -> None:
    status, out, err = command("export", CASE, "--as", "byte-script")
    assert (status, err) == (0, "")
    file = tmp_path / "new" / "script.py"
    status, nothing, err = command("export", CASE, "--as", "byte-script", "--out", file)
    assert (status, nothing) == (0, "")
    assert file.read_text() == out
    assert str(file) in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([CASE, "--as", "unit-test"], "unit-test is for step sequences, and this file holds a kernel case"),
        ([SEQUENCE, "--as", "byte-script"], "byte-script is for kernel cases, and this file holds a step sequence"),
        ([SEQUENCE, "--as", "script"], "unknown form 'script'"),
        (["nothing.json", "--as", "issue"], "nothing.json: no such file"),
        ([CASE, "--as", "byte-script", "--sweep", "vllm>=0.25"], "does not show which releases are affected"),
        ([CASE, "--as", "byte-script", "--out", "/dev/null"], "not a regular file"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(command: Command, arguments: list[object], words: str) -> None:
    status, out, err = command("export", *arguments)
    assert (status, out) == (2, "")
    assert words in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err


def test_the_forms_are_listed(command: Command) -> None:
    status, out, _ = command("names", "forms", "--json")
    assert status == 0
    assert list(json.loads(out)["forms"]) == list(forms())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([CASE, "vllm==0.33.0", "a", "b"], "is not a checkout: write path:DIR"),
        ([CASE, "path:/nowhere", "a", "b"], "there is no such directory"),
    ],
)
def test_bisect_needs_a_checkout(
    command: Command, arguments: list[object], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = command("bisect", *arguments)
    assert (status, out) == (2, "")
    assert words in " ".join(err.replace("│", " ").split())
    assert not list(tmp_path.iterdir())


def test_a_checkout_without_a_history_is_refused(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = tmp_path / "checkout" / "vllm" / "v1" / "worker" / "mamba_utils.py"
    worker.parent.mkdir(parents=True)
    worker.write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    status, _, err = command("bisect", CASE, f"path:{tmp_path / 'checkout'}", "a", "b")
    assert status == 2
    assert "not a git repository" in err
