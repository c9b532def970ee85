"""Environments with the newest release really installed, and Hugging Face's `kernels` next to it.

In one, vLLM lacks most of its dependencies; in the other, it has all that its Mamba modules need on a CPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.kernels.targets.releases import offline
from harness.kernels.targets.vllm.known_releases import RELEASES

ROOT = Path(__file__).parents[3]
NEWEST = RELEASES[-1]

pytestmark = [pytest.mark.slow, pytest.mark.release]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of a new environment: the packages of this one, the release's wheel without dependencies, `kernels`."""
    return environment(tmp_path_factory, [])


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with the release's dependencies, except those for GPUs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return environment(tmp_path_factory, project["optional-dependencies"]["sequences"])


def environment(tmp_path_factory: pytest.TempPathFactory, packages: Sequence[str]) -> Path:
    """Python of a new environment, with the newest release and `packages`."""
    if offline():
        pytest.skip("downloads are forbidden")
    directory = tmp_path_factory.mktemp("installed") / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    python = directory / "bin" / "python"
    own = Path(sysconfig.get_path("purelib", vars={"base": str(directory), "platbase": str(directory)}))
    (own / "parent.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*install, "--no-deps", f"vllm=={NEWEST}"], check=True)
    subprocess.run([*install, "-c", ROOT / "constraints.txt", "kernels", *packages], check=True)
    return python


def run(python: Path, folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command in that environment, in `folder`."""
    return subprocess.run(
        [str(python), *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )


def harness(python: Path, folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command of the harness in that environment."""
    return run(python, folder, "-P", "-c", "from harness.cli.main import main; main()", *arguments)


SURROUNDINGS = """
import sys
from harness.kernels.executors.registry import create_executor
from harness.kernels.targets.registry import load_target
version = load_target("vllm", create_executor("native")).version
print(version.surroundings, sys.modules["vllm.config"].__file__, type(version.interface.MambaSpec).__module__)
print(version.interface.__name__, sys.modules["kernels"].__file__ if "kernels" in sys.modules else "-")
"""


@pytest.mark.parametrize("name", ["python", "complete"])
def test_the_installed_release_is_the_default_target(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    done = harness(request.getfixturevalue(name), tmp_path, "run", "--cases", 160, "--scale", "small", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["target"] == "vllm"
    assert summary["judged"]["postprocess"] > 0
    assert summary["judged"]["precopy"] > 0
    assert summary["launches"] > 0
    assert not [line for line in done.stderr.splitlines() if "tested on stubs" in line and name == "complete"]


def test_a_complete_package_is_used_as_it_is(complete: Path, tmp_path: Path) -> None:
    done = run(complete, tmp_path, "-P", "-c", SURROUNDINGS)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()[-2:]
    assert first.startswith("package ")
    assert Path(first.split()[1]).is_relative_to(complete.parents[1])
    assert second.split()[0] == "vllm.v1.kv_cache_interface"


def test_all_operations_of_a_complete_package(complete: Path, tmp_path: Path) -> None:
    done = harness(complete, tmp_path, "run", "--ops", "all", "--cases", 480, "--checks", "memory", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    unjudged = {name for name, count in summary["judged"].items() if not count}
    assert unjudged == summary["lacking"].keys() == {"all-mode"}, "gone since 0.32.0"


def test_a_fault_planted_in_a_complete_package_is_found(complete: Path, tmp_path: Path) -> None:
    done = harness(complete, tmp_path, "run", "--target", "vllm+wrong-group", "--cases", 160, "--fail-fast", "--json")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["findings"]


@pytest.mark.parametrize("started_in_root", [True, False])
def test_two_packages_called_kernels(python: Path, tmp_path: Path, started_in_root: bool) -> None:
    """Ours is a room of `harness`; plain `kernels` is the package that transformers imports, wherever Python starts."""
    code = "import kernels, harness.kernels.targets.base as ours; print(kernels.__file__); print(ours.__file__)"
    done = run(python, ROOT if started_in_root else tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
    theirs, ours = done.stdout.split()
    assert Path(theirs).is_relative_to(python.parents[1])
    assert Path(ours).is_relative_to(ROOT)
