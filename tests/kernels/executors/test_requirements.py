"""Versions that do not fit, and packages that cannot be imported, are reported in one line that names what would do."""

from __future__ import annotations

import importlib.metadata
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.kernels.executors import requirements
from harness.kernels.executors.requirements import PROJECT, disagreements, unmet

Command = Callable[..., "subprocess.CompletedProcess[str]"]

REQUIRED = {
    PROJECT: ["torch<2.16,>=2.10", "triton<3.10,>=3.6", "llvmlite<0.51,>=0.47", "einops>=0.8; extra == 'sequences'"],
    "torch": ["triton==3.7.1; platform_system == 'Linux'", "opt-einsum>=3.3; extra == 'opt-einsum'"],
}


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The installed versions, to be changed by a test: a CUDA build of torch and what goes with it."""
    installed = {"torch": "2.13.0", "triton": "3.7.1", "llvmlite": "0.50.0", PROJECT: "0.1.0"}

    def version(name: str) -> str:
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    def requires(name: str) -> list[str] | None:
        version(name)
        return REQUIRED.get(name)

    monkeypatch.setattr(requirements.importlib.metadata, "version", version)
    monkeypatch.setattr(requirements.importlib.metadata, "requires", requires)
    return installed


def test_versions_that_fit_are_not_mentioned(versions: dict[str, str]) -> None:
    assert unmet("torch", "triton", "llvmlite") is None
    assert disagreements() == ()
    versions["torch"] = "2.13.0+cpu"
    assert unmet("torch") is None


@pytest.mark.parametrize(("package", "version"), [("torch", "2.9.1"), ("torch", "2.16.0"), ("llvmlite", "0.46.0")])
def test_a_version_out_of_range_is_reported_with_the_range(
    versions: dict[str, str], package: str, version: str
) -> None:
    versions[package] = version
    wanted = next(line for line in REQUIRED[PROJECT] if line.startswith(package))
    assert unmet("torch", "triton", "llvmlite") == f"{package} {version} does not fit: the harness needs {wanted}"


def test_metadata_that_cannot_be_read_asks_for_nothing(
    versions: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REQUIRED, "torch", ["triton (<<bad", "triton==3.7.1"])
    assert unmet("torch", "triton") is None
    versions["triton"] = "3.7.0"
    assert disagreements() == ("triton 3.7.0 does not go with torch 2.13.0, which requires triton==3.7.1",)


def test_a_triton_out_of_range_is_reported_with_the_one_that_torch_requires(versions: dict[str, str]) -> None:
    versions["triton"] = "3.5.1"
    assert unmet("torch", "triton") == (
        "triton 3.5.1 does not fit: the harness needs triton<3.10,>=3.6 (torch 2.13.0 requires triton==3.7.1)"
    )


def test_a_triton_that_torch_does_not_require_is_reported_and_runs(versions: dict[str, str]) -> None:
    versions["triton"] = "3.9.0"
    assert unmet("torch", "triton") is None
    assert disagreements() == ("triton 3.9.0 does not go with torch 2.13.0, which requires triton==3.7.1",)


def test_a_missing_package_is_reported_with_its_range(versions: dict[str, str]) -> None:
    del versions["triton"]
    assert unmet("torch", "triton") == "triton is not installed: the harness needs triton<3.10,>=3.6"
    assert disagreements() == ()


def test_a_checkout_on_the_path_knows_no_range(versions: dict[str, str]) -> None:
    del versions[PROJECT]
    versions["triton"] = "3.5.1"
    assert unmet("torch", "triton") is None
    del versions["triton"]
    assert unmet("torch", "triton") == "triton is not installed"


def installed(folder: Path, name: str, version: str) -> str:
    """A path on which that version appears to be installed, before the real one."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    return f"{Path(__file__).parents[3]}:{folder}"


@pytest.mark.long
def test_commands_refuse_a_version_that_does_not_fit_in_one_line(harness: Command, tmp_path: Path) -> None:
    path = installed(tmp_path, "triton", "3.1.0")
    for command in (["run", "-t", "builtin", "--cases", "1"], ["run", "-t", "builtin", "-e", "native"], ["demo"]):
        done = harness(*command, PYTHONPATH=path)
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert "triton 3.1.0 does not fit: the harness needs triton<3.10,>=3.6" in line
    done = harness("doctor", PYTHONPATH=path)
    assert done.returncode == 2
    assert "executor native       not here: triton 3.1.0 does not fit: the harness needs triton<" in done.stdout


@pytest.mark.long
def test_the_interpreter_is_not_taken_silently(harness: Command, tmp_path: Path) -> None:
    path = installed(tmp_path, "llvmlite", "0.1.0")
    done = harness("run", "-t", "builtin", "--cases", "1", "--scale", "small", "--no-shrink", PYTHONPATH=path)
    lines = [line for line in done.stderr.splitlines() if "interpreter" in line]
    assert "llvmlite 0.1.0 does not fit: the harness needs llvmlite<0.51,>=0.47" in lines[0]


@pytest.mark.long
@pytest.mark.parametrize("package", ["torch", "triton", "llvmlite"])
def test_a_package_that_cannot_be_imported_is_reported_in_one_line(
    harness: Command, tmp_path: Path, package: str
) -> None:
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text("raise OSError('libcudart.so.13: no such file')\n")
    path = f"{Path(__file__).parents[3]}:{tmp_path}"
    done = harness("run", "-t", "builtin", "-e", "native", "--cases", "1", PYTHONPATH=path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.endswith(
        "executor native is not available: an import that it needs fails: libcudart.so.13: no such file"
    )
    done = harness("doctor", PYTHONPATH=path)
    assert "executor native       not here: an import that it needs fails: libcudart.so.13: no such" in done.stdout
