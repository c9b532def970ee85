"""New virtual environments for what is exported: some installed packages with all that they require, and no harness."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement


def new_environment(folder: Path, packages: Sequence[str]) -> Path:
    """The Python of a new environment, in which these packages are those of this environment, as links."""
    venv.create(folder, symlinks=True, with_pip=False)
    python = folder / "bin" / "python"
    place = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    for name in sorted(_with_requirements(packages)):
        distribution = importlib.metadata.distribution(name)
        inside = {path.parts[0] for path in distribution.files or () if path.parts[0] not in ("..", "__pycache__")}
        for entry in inside:
            link = Path(place, entry)
            if not link.exists():
                os.symlink(Path(str(distribution.locate_file(entry))), link)
    found = subprocess.run(
        [python, "-c", "import harness"], check=False, capture_output=True, env=environment(), cwd=folder
    )
    assert found.returncode == 1, "the harness is in the new environment"
    return python


def environment(**more: str) -> dict[str, str]:
    """Environment variables without those that let a process find modules."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}, **more}


def run(python: Path, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a script there, in the folder that holds it."""
    return subprocess.run(
        [python, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        env=environment(**more),
        cwd=Path(str(arguments[0])).parent if Path(str(arguments[0])).is_absolute() else None,
    )


def _with_requirements(packages: Sequence[str]) -> set[str]:
    """The packages that are installed here, and those that they require here."""
    found: set[str] = set()
    waiting = list(packages)
    while waiting:
        name = waiting.pop()
        try:
            requirements = importlib.metadata.distribution(name).requires or []
        except importlib.metadata.PackageNotFoundError:
            continue  # a CPU build of torch requires no CUDA packages
        if name in found:
            continue
        found.add(name)
        for text in requirements:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found
