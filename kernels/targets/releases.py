"""A release is one published version of a package; here live the source files of releases, kept in a cache.

A target that is a release must be the published code to the byte, on any machine, without installing it: its
dependencies are gigabytes and need a GPU platform. So the wheel is downloaded once through pip, the few source
files that matter are kept in the user's cache directory with their checksums, and the wheel is deleted. An entry
is complete or absent: it is written aside and renamed into place, and checked again each time it is opened.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import filelock
import msgspec

from harness.kernels.cache_directory import cache_directory
from harness.kernels.targets.base import UnknownTarget

OFFLINE_VARIABLE = "HARNESS_OFFLINE"
"""Environment variable: anything but empty or `0` forbids downloads. Releases already cached still work."""

MANIFEST = "manifest.json"

_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*((a|b|rc|\.post|\.dev)[0-9]+)?")

# Only Python files are kept, so the wheel of any platform will do. Naming one makes the answer the same on every
# host, also on those for which the package has no wheel.
_WHEEL_TAGS = (
    "--implementation=cp",
    "--python-version=3.12",
    *(f"--abi={abi}" for abi in ("cp312", "abi3", "none")),
    *(f"--platform=manylinux_2_{glibc}_x86_64" for glibc in (17, 24, 28, 31, 34, 35)),
    "--platform=manylinux1_x86_64",
)

Announce = Callable[[str], None]
"""Takes one line that tells the user why something is taking its time."""


@dataclass(frozen=True)
class Package:
    """A package whose releases can be cached.

    `kept` are the path prefixes of the Python files to keep, `needed` the files without which a release is of no
    use; paths as in the wheel. `entry` names the cache entries if the same package is kept in more than one extent.
    """

    name: str
    kept: tuple[str, ...]
    needed: tuple[str, ...]
    entry: str = ""


class Wheel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file that a cached release was taken from."""

    file: str
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a cache entry should contain: `files` maps paths to the SHA-256 of their bytes."""

    package: str
    version: str
    wheel: Wheel
    files: Mapping[str, str]


@dataclass(frozen=True)
class Release:
    """A complete, checked cache entry: `directory` holds the files of `manifest` under their paths in the wheel."""

    directory: Path
    manifest: Manifest


def check_version(package: Package, version: str) -> None:
    """Raise UnknownTarget if `version` is not the text of a version."""
    if not _VERSION.fullmatch(version):
        raise UnknownTarget(f"{version!r} is not a version of {package.name}; write for example {package.name}==0.33.0")


def listed(package: Package, version: str) -> Manifest | None:
    """The manifest of the release's cache entry, or None if it has none. Files are not looked at: this is quick."""
    check_version(package, version)
    try:
        manifest = msgspec.json.decode((_directory(package, version) / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError):
        return None
    return manifest if (manifest.package, manifest.version) == (package.name, version) else None


def cached(package: Package, version: str) -> Release | None:
    """The release if it is in the cache, whole and unchanged; otherwise None. Never downloads."""
    manifest = listed(package, version)
    if manifest is None or not set(package.needed) <= manifest.files.keys():
        return None
    directory = _directory(package, version)
    try:
        for file, checksum in manifest.files.items():
            if hashlib.sha256((directory / file).read_bytes()).hexdigest() != checksum:
                return None
    except OSError:
        return None
    return Release(directory, manifest)


def offline() -> bool:
    """Whether the user forbade downloads."""
    return os.environ.get(OFFLINE_VARIABLE, "") not in ("", "0")


def package_installer() -> str | None:
    """The module that downloads (`pip`), or None if this Python lacks it."""
    return "pip" if importlib.util.find_spec("pip") is not None else None


def release(package: Package, version: str, announce: Announce | None = None) -> Release:
    """The release, downloaded first if the cache lacks it or holds a damaged copy.

    Processes that want the same release at the same time share one download. Raises UnknownTarget with one line
    that says why there is no such release to be had.
    """
    found = cached(package, version)
    if found is not None:
        return found
    directory = _directory(package, version)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(f"{directory}.lock"):
            found = cached(package, version)
            if found is not None:
                return found
            if offline():
                raise UnknownTarget(f"{_named(package, version)} is not in the cache, and {OFFLINE_VARIABLE} is set")
            if announce is not None:
                announce(f"downloading {_named(package, version)} once, to keep its source files")
            _fetch(package, version, directory, announce)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise UnknownTarget(_disk_full(package, version)) from error
        raise UnknownTarget(f"{_named(package, version)}: cannot write {directory.parent}: {error.strerror}") from error
    found = cached(package, version)
    if found is None:
        raise UnknownTarget(f"{_named(package, version)}: what was just written to {directory} cannot be read back")
    return found


def _named(package: Package, version: str) -> str:
    return f"{package.name} {version}"


def _disk_full(package: Package, version: str) -> str:
    return f"{_named(package, version)}: the disk of the cache directory {cache_directory()} is full"


def _directory(package: Package, version: str) -> Path:
    return cache_directory() / "releases" / f"{package.entry or package.name}-{version}"


def _fetch(package: Package, version: str, directory: Path, announce: Announce | None) -> None:
    """Fill `directory`. The caller holds its lock, so leftovers of an earlier attempt belong to nobody."""
    prefix = f".{directory.name}-"
    for leftover in directory.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=directory.parent) as work:
        wheel = _download(package, version, Path(work), announce)
        entry = Path(work) / "entry"
        _unpack(package, version, wheel, entry)
        if directory.exists():
            shutil.rmtree(directory)
        entry.rename(directory)


def _download(package: Package, version: str, work: Path, announce: Announce | None) -> Path:
    if package_installer() is None:
        raise UnknownTarget(
            f"{_named(package, version)} is not in the cache, and this Python has no pip to get it with"
        )
    target = work / "wheel"
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir"),
        *("--no-input", "--disable-pip-version-check", *_WHEEL_TAGS),
        *("--dest", str(target), f"{package.name}=={version}"),
    ]
    # pip's own temporary files hold the whole wheel too: keep them where they are cleaned up and have room.
    environment = {**os.environ, "TMPDIR": str(work)}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if result.returncode != 0:
        raise UnknownTarget(_explain(package, version, result.stderr))
    withdrawn = re.search(r"Reason for being yanked: (.*)", result.stderr)
    if withdrawn and announce is not None:
        announce(f"{_named(package, version)} was withdrawn by its publisher: {withdrawn[1].strip()}")
    wheels = sorted(target.glob("*.whl"))
    if len(wheels) != 1:
        raise UnknownTarget(f"{_named(package, version)}: pip left {len(wheels)} wheels where one was expected")
    return wheels[0]


def _explain(package: Package, version: str, output: str) -> str:
    """One line for pip's many."""
    named = _named(package, version)
    if "No space left on device" in output or "Errno 28" in output:
        return _disk_full(package, version)
    versions = re.search(r"\(from versions: ([^)]*)\)", output)
    if versions:
        known = [text.strip() for text in versions[1].split(",") if text.strip() not in ("", "none")]
        if known:
            return f"{named} was never released, or has no wheel; there are {', '.join(known[-16:])}"
        return f"{named} is not in the cache, and no package index could be reached or has it"
    errors = [line for line in output.splitlines() if line.startswith("ERROR:")]
    said = re.sub(r"^ERROR:\s*", "", errors[-1]) if errors else "no reason given"
    return f"{named} could not be downloaded; pip says: {_without_hosts(said)[:160]}"


def _without_hosts(text: str) -> str:
    """Where a machine gets its packages from is nobody's business in a report."""
    text = re.sub(r"(https?|file)://\S+", "(address)", text)
    return re.sub(r"\b[\w-]+(\.[\w-]+)*\.(org|com|net|io|dev)\b", "(host)", text)


def _unpack(package: Package, version: str, wheel: Path, entry: Path) -> None:
    """Write the kept files of `wheel` and their manifest into the new directory `entry`."""
    with wheel.open("rb") as stream:
        wheel_checksum = hashlib.file_digest(stream, "sha256").hexdigest()
    checksums: dict[str, str] = {}
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in _kept_names(package, archive.namelist()):
                data = archive.read(name)
                file = entry / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
                checksums[name] = hashlib.sha256(data).hexdigest()
    except (zipfile.BadZipFile, EOFError) as error:
        raise UnknownTarget(f"{_named(package, version)}: the downloaded wheel is damaged: {error}") from error
    missing = [file for file in package.needed if file not in checksums]
    if missing:
        raise UnknownTarget(f"{_named(package, version)} cannot be a target: its wheel has no {missing[0]}")
    manifest = Manifest(package.name, version, Wheel(wheel.name, wheel_checksum), checksums)
    (entry / MANIFEST).write_bytes(msgspec.json.encode(manifest))


def _kept_names(package: Package, names: Sequence[str]) -> list[str]:
    return [
        name
        for name in names
        if name.endswith(".py") and name.startswith(package.kept) and ".." not in PurePosixPath(name).parts
    ]
