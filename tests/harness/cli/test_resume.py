"""`harness run --resume` and targets, as a user writes them wrongly: one line, status 2, and nothing is touched."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.campaign.folder import CampaignFolder
from harness.kernels.targets.vllm.known_releases import RELEASES
from tests.releases import editable, editable_whole

Command = Callable[..., tuple[int, str, str]]
Run = Callable[..., "subprocess.CompletedProcess[str]"]

NEWEST = RELEASES[-1]


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("kept", "arguments", "message"),
    [
        ({"target": "builtin", "seed": True}, [], "is damaged"),
        ({"target": "builtin", "no_shrink": "yes"}, [], "is damaged"),
        ({"target": "builtin"}, ["--targets", "builtin,vllm==0.33.0"], "has other targets"),
        ({"targets": "builtin,vllm==0.33.0"}, ["-t", "builtin"], "has other targets"),
        ({"targets": "builtin,vllm==0.33.0"}, ["--targets", "builtin"], "has other targets"),
        ({"target": "builtin", "seed": "seven"}, [], "Invalid value for '--seed'"),
    ],
)
def test_a_folder_that_does_not_fit_is_refused(
    command: Command, tmp_path: Path, kept: dict[str, str | bool], arguments: list[str], message: str
) -> None:
    out = tmp_path / "out"
    CampaignFolder(out).write(kept)
    (out / "cases.journal").write_bytes(b'{"target":"builtin","seed":0}\n')
    before = contents(out)
    status, printed, errors = command("run", "--resume", out, *arguments)
    assert (status, printed, len(errors.splitlines())) == (2, "", 1), errors
    assert message in errors
    assert contents(out) == before


def test_sorting_out_an_empty_folder_is_refused(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    CampaignFolder(out).write({"target": "builtin", "seed": "0"})
    status, printed, errors = command("run", "--resume", out, "--budget", "0")
    assert (status, printed) == (2, "")
    assert "there is no " in errors.splitlines()[-1]


@pytest.mark.parametrize("target", ["path:\udcff", "builtin\udc80", "vllm==\udcff"])
def test_a_target_that_is_no_text_is_refused_in_one_line(harness: Run, tmp_path: Path, target: str) -> None:
    done = harness("run", "-t", os.fsencode(target), "--cases", 1, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.release
@pytest.mark.parametrize("operations", ["precopy", "sequences"])
def test_an_edited_checkout_is_another_campaign(harness: Run, tmp_path: Path, operations: str) -> None:
    """What was judged before the edit says nothing of the code after it."""
    checkout, out = editable_whole(NEWEST, tmp_path / "checkout"), tmp_path / "out"
    asked = ("-t", f"path:{checkout}", "--ops", operations, "--cases", 4, "--out", out)
    first = harness("run", *asked)
    assert first.returncode in (0, 1), first.stderr
    same = harness("run", "--resume", out)
    assert same.returncode == first.returncode, same.stderr
    edited = checkout / "vllm" / "v1" / "worker" / "mamba_utils.py"
    text = edited.read_text()
    edited.unlink()  # a link
    edited.write_text(f"{text}\n# a remark\n")
    refused = harness("run", "--resume", out)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "of other sources" in refused.stderr.splitlines()[-1]


@pytest.mark.long
@pytest.mark.release
@pytest.mark.parametrize("line", ["raise RuntimeError('not today')", "1 / 0", "raise SystemExit(7)"])
def test_a_checkout_that_raises_when_it_is_imported_is_refused(harness: Run, tmp_path: Path, line: str) -> None:
    checkout = editable(NEWEST, tmp_path / "checkout")
    edited = checkout / "vllm" / "v1" / "worker" / "mamba_utils.py"
    edited.write_text(edited.read_text() + f"\n{line}\n")
    done = harness("run", "-t", f"path:{checkout}", "--ops", "precopy", "--cases", 4, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert "mamba_utils.py does not load" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("words", [["--known", "none"], ["--known=none"]])
def test_what_was_known_is_taken_away_on_request(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """The file is gone meanwhile: without it the campaign goes on, and so does each later part."""
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    kept = {"target": "builtin", "ops": "precopy", "cases": "1", "known": "gone.toml"}
    CampaignFolder(out).write(kept)
    assert command("run", "--resume", out)[2].endswith("gone.toml: No such file or directory\n")
    assert command("run", "--resume", out, *words)[0] == 0
    assert "known" not in CampaignFolder(out).read().options
    assert command("run", "--resume", out)[0] == 0


@pytest.mark.parametrize("option", ["known", "baseline", "corpus"])
@pytest.mark.parametrize("value", ["", "none"])
def test_nothing_can_be_taken_from_a_new_campaign(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, value: str
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = command("run", "-t", "builtin", "--cases", "1", f"--{option}", value)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"--{option} {value!r}: leave it out, or name one" in err
