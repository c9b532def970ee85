"""An environment with the newest release really installed, and Hugging Face's `kernels` beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from harness.kernels.targets.releases import offline
from harness.kernels.targets.vllm.family import RELEASES

ROOT = Path(__file__).parents[3]
NEWEST = RELEASES[-1]

pytestmark = [pytest.mark.slow, pytest.mark.release]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of a new environment: what this one has, the release's wheel without its dependencies, and `kernels`."""
    if offline():
        pytest.skip("downloads are forbidden")
    directory = tmp_path_factory.mktemp("installed") / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    python = directory / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(directory), "platbase": str(directory)}))
    (packages / "parent.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*install, "--no-deps", f"vllm=={NEWEST}"], check=True)
    subprocess.run([*install, "kernels"], check=True)
    return python


def run(python: Path, folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A command in that environment, started in `folder`."""
    return subprocess.run(
        [str(python), *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_the_installed_release_is_the_default_target(python: Path, tmp_path: Path) -> None:
    start = "from harness.cli.main import main; main()"
    done = run(python, tmp_path, "-P", "-c", start, "run", "--cases", 160, "--scale", "small", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["target"] == "vllm"
    assert summary["judged"]["postprocess"] > 0
    assert summary["judged"]["precopy"] > 0
    assert summary["launches"] > 0


@pytest.mark.parametrize("started_in_root", [True, False])
def test_two_packages_called_kernels(python: Path, tmp_path: Path, started_in_root: bool) -> None:
    """Ours is a room of `harness`; a plain `kernels` is the one that transformers imports, wherever Python starts."""
    code = "import kernels, harness.kernels.targets.base as ours; print(kernels.__file__); print(ours.__file__)"
    done = run(python, ROOT if started_in_root else tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
    theirs, ours = done.stdout.split()
    assert Path(theirs).is_relative_to(python.parents[1])
    assert Path(ours).is_relative_to(ROOT)
