#!/usr/bin/env python3
"""Resolves what the README's first command installs, as on a fresh machine: for each supported Python that this machine
has, with the extras of the README, the constraints, and only a package index.

usage: .ci/resolve.py

Prints a line for each Python: resolved, FAILED with pip's error, or skipped where there is no such Python. Exit
status: 0, or 1 if one of them failed. Needs the network. Installs nothing and reads only metadata, some 20 MB for each
Python (less, and within seconds, from an index that offers metadata separately).

Ignores local settings that a fresh machine does not have: packages on its disk, other indexes than its default one,
other constraints. Keeps how the default index is reached: its address, proxy and certificates.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.11", "3.12", "3.13")
EXTRAS = ("test,sequences", "test")
"""What the README installs, largest first: versions that fit all of it fit any part of it. Smaller sets are tried only
if no versions fit, to find out for which part."""

METADATA = ("pyproject.toml", "README.md", "LICENSE", "constraints.txt")
"""The files that decide the answer. A copy is resolved: several Pythons at once would write into one checkout."""

REACHING = ("index-url", "cert", "client-cert", "proxy", "trusted-host", "default-timeout", "timeout", "retries")
"""The settings of pip that determine how the default index is reached."""

SHOWN = ("torch", "triton", "llvmlite", "numpy")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="resolve-") as work:
        environment = fresh_environment()
        pip = newest_pip(Path(work) / "pip", environment)
        with ThreadPoolExecutor(len(VERSIONS)) as pool:
            answers = list(pool.map(lambda version: resolve(version, Path(work) / version, pip, environment), VERSIONS))
    return 0 if all(answers) else 1


def fresh_environment() -> dict[str, str]:
    """The environment in which pip knows how to reach its default index, and nothing more."""
    listed = run([sys.executable, "-m", "pip", "config", "list"], os.environ).stdout.splitlines()
    kept = {}
    for line in sorted(listed, key=lambda line: line.startswith(":env:")):  # such as global.proxy='…'; variables win
        name, _, quoted = line.partition("=")
        name, value = name.rpartition(".")[2], str(ast.literal_eval(quoted))
        if name in REACHING and (name != "index-url" or value.startswith(("http:", "https:"))):
            kept[name] = value
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment |= {f"PIP_{name.upper().replace('-', '_')}": value for name, value in kept.items()}
    quiet = dict.fromkeys(("PIP_NO_COLOR", "PIP_NO_INPUT", "PIP_DISABLE_PIP_VERSION_CHECK"), "1")
    return environment | quiet | {"PIP_CONFIG_FILE": os.devnull}


def newest_pip(folder: Path, environment: Mapping[str, str]) -> list[str]:
    """The command of a new pip, which reads only the metadata of a wheel where the index allows that."""
    run([sys.executable, "-m", "venv", str(folder)], environment)
    python = str(folder / "bin" / "python")
    run([python, "-m", "pip", "install", "--quiet", "--upgrade", "pip"], environment)
    return [python, "-m", "pip"]


def resolve(version: str, folder: Path, pip: list[str], environment: Mapping[str, str]) -> bool:
    """Resolve for one Python, and print the result. False if that failed."""
    python = next(interpreters(version), None)
    if python is None:
        say(f"Python {version}: skipped, this machine has none")
        return True
    project = folder / "project"
    project.mkdir(parents=True)
    for name in METADATA:
        shutil.copy2(ROOT / name, project / name)
    run([python, "-m", "venv", "--without-pip", str(folder / "venv")], environment)
    command = [*pip, "--python", str(folder / "venv" / "bin" / "python"), "install", "--dry-run", "--ignore-installed"]
    if "fast-deps" in run([*pip, "install", "--help"], environment).stdout:
        command.append("--use-feature=fast-deps")
    for extras in EXTRAS:
        report = folder / "report.json"
        begun = time.monotonic()
        asked = ["-c", "constraints.txt", "-e", f".[{extras}]"]
        done = run([*command, "--report", str(report), *asked], environment, cwd=project, check=False)
        seconds = time.monotonic() - begun
        problem = why(done) if done.returncode != 0 else from_disk(report, project)
        if problem is None:
            say(f"Python {version} [{extras}]: resolved in {seconds:.0f} s: {summary(report)}")
            return extras == EXTRAS[0]
        say(f"Python {version} [{extras}]: FAILED\n{problem}")
    return False


def interpreters(version: str) -> Iterator[str]:
    """The Pythons of that version that can run and make virtual environments."""
    for name in (sys.executable, shutil.which(f"python{version}"), *from_pyenv(version)):
        if name is not None:
            probe = "import sys, ensurepip; print('%d.%d' % sys.version_info[:2])"
            answer = subprocess.run([name, "-c", probe], capture_output=True, text=True, check=False)
            if answer.returncode == 0 and answer.stdout.strip() == version:
                yield name


def from_pyenv(version: str) -> list[str]:
    """Those that pyenv has installed: its command on the path runs only a version that was selected before."""
    pyenv = shutil.which("pyenv")
    root = run([pyenv, "root"], os.environ).stdout.strip() if pyenv else os.environ.get("PYENV_ROOT", "~/.pyenv")
    return [str(file) for file in sorted(Path(root).expanduser().glob(f"versions/{version}*/bin/python{version}"))]


def why(done: subprocess.CompletedProcess[str]) -> str:
    """pip's reason for a failure: which requirements are in conflict, or else its errors."""
    _, caused, conflict = done.stdout.partition("The conflict is caused by:")
    message = caused + conflict.partition("To fix this")[0] if caused else done.stderr
    lines = [line for line in message.splitlines() if line.strip() and not line.startswith("WARNING: pip is using")]
    return "\n".join(f"    {line}" for line in lines[-20:]) or f"    pip ended with status {done.returncode}"


def from_disk(report: Path, project: Path) -> str | None:
    """The packages of a report that came from this machine's disk, except the project; None if there are none."""
    installed = json.loads(report.read_text(encoding="utf-8"))["install"]
    names = [
        one["metadata"]["name"]
        for one in installed
        if one["download_info"]["url"].startswith("file:") and one["download_info"]["url"] != project.as_uri()
    ]
    return f"    from this machine's disk: {', '.join(names)}" if names else None


def summary(report: Path) -> str:
    """The number of packages of a report, and the most important versions."""
    found = [one["metadata"] for one in json.loads(report.read_text(encoding="utf-8"))["install"]]
    versions = {one["name"].lower(): one["version"] for one in found}
    return f"{len(found)} packages, " + ", ".join(f"{name} {versions[name]}" for name in SHOWN)


def run(
    command: list[str], environment: Mapping[str, str], cwd: Path | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, env=dict(environment), cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if check and done.returncode != 0:
        sys.exit(f"{' '.join(command[:6])} failed:\n{done.stderr}")
    return done


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
