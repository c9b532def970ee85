"""A release is one published version of a package; this module keeps the source files of releases in a cache.

A target that is a release must be the published code to the byte, on any machine, without installing it: its
dependencies are gigabytes and need a GPU platform. So the wheel is downloaded once through pip, the few source
files that are needed are kept in the user's cache directory with their checksums, and the wheel is deleted. An entry
is complete or absent: it is written to a temporary place and renamed, and checked again each time it is opened.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import filelock
import msgspec

from harness.kernels.cache_directory import cache_directory
from harness.kernels.targets.downloading import Announce, disk_is_full, download_wheel
from harness.refusal import UnknownTarget

OFFLINE_VARIABLE = "HARNESS_OFFLINE"
"""Environment variable: anything but empty or `0` forbids downloads. Releases in the cache still work."""

DOWNLOADS_FORBIDDEN = f"downloads are forbidden (--offline or {OFFLINE_VARIABLE})"
"""Both ways to forbid them, for messages: the option sets the variable, so that workers know."""

MANIFEST = "manifest.json"

_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*((a|b|rc|\.post|\.dev)[0-9]+)?")


@dataclass(frozen=True)
class Package:
    """A package whose releases can be cached.

    `kept` are the path prefixes of the Python files to keep, `needed` the files without which a release is
    unusable; paths as in the wheel. `entry` names the cache entries if one package is kept in more than one extent.
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


@dataclass(frozen=True)
class CacheEntry:
    """One entry of the cache. `size` in bytes; `sound` if all files have their checksums.

    `manifest` is None if it cannot be read.
    """

    name: str
    manifest: Manifest | None
    size: int
    sound: bool


def entries() -> Iterator[CacheEntry]:
    """Everything in the cache of releases, by name. Reads all files, to test their checksums."""
    for directory in sorted(_releases().glob("*")):
        if not directory.is_dir() or directory.name.startswith("."):
            continue
        size = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
        try:
            manifest = msgspec.json.decode((directory / MANIFEST).read_bytes(), type=Manifest)
        except (OSError, msgspec.DecodeError):
            yield CacheEntry(directory.name, None, size, False)
            continue
        yield CacheEntry(directory.name, manifest, size, _sound(directory, manifest))


def remove(name: str) -> None:
    """Remove the cache entry `name`, waiting for a process that is writing it. Does nothing if there is none."""
    directory = _releases() / name
    if directory not in _releases().glob("*"):  # a name, not a path to another place
        return
    with locked(directory):
        shutil.rmtree(directory, ignore_errors=True)


def check_version(package: Package, version: str) -> None:
    """Raise UnknownTarget if `version` is not the text of a version."""
    if not _VERSION.fullmatch(version):
        raise UnknownTarget(f"{version!r} is not a version of {package.name}; write for example {package.name}==0.33.0")


def listed(package: Package, version: str) -> Manifest | None:
    """The manifest of the release's cache entry, or None if it has none. Does not check files, so it is quick."""
    check_version(package, version)
    try:
        manifest = msgspec.json.decode((_directory(package, version) / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError):
        return None
    return manifest if (manifest.package, manifest.version) == (package.name, version) else None


def kept_file(package: Package, version: str, file: str) -> Path | None:
    """Where the release's cache entry has a file, or None if it has no such file. Like `listed`, it checks nothing."""
    manifest = listed(package, version)
    return _directory(package, version) / file if manifest is not None and file in manifest.files else None


def cached(package: Package, version: str) -> Release | None:
    """The release if it is in the cache, complete and unchanged; otherwise None. Never downloads."""
    manifest = listed(package, version)
    if manifest is None or not set(package.needed) <= manifest.files.keys():
        return None
    directory = _directory(package, version)
    return Release(directory, manifest) if _sound(directory, manifest) else None


def offline() -> bool:
    """Whether the user forbade downloads."""
    return os.environ.get(OFFLINE_VARIABLE, "") not in ("", "0")


def release(package: Package, version: str, announce: Announce | None = None) -> Release:
    """The release, downloaded first if the cache lacks it or holds a damaged copy.

    Processes that want the same release at the same time share one download. Raises UnknownTarget with one line
    that says why the release is not available.
    """
    found = cached(package, version)
    if found is not None:
        return found
    if offline():
        raise UnknownTarget(f"{_named(package, version)} is not in the cache, and {DOWNLOADS_FORBIDDEN}")
    directory = _directory(package, version)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with locked(directory):
            found = cached(package, version)
            if found is not None:
                return found
            if announce is not None:
                announce(f"looking for {_named(package, version)}, to download it once and keep its source files")
            _fetch(package, version, directory, announce)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise UnknownTarget(disk_is_full(_named(package, version))) from error
        raise UnknownTarget(f"{_named(package, version)}: cannot write {directory.parent}: {error.strerror}") from error
    found = cached(package, version)
    if found is None:
        raise UnknownTarget(f"{_named(package, version)}: what was just written to {directory} cannot be read back")
    return found


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of an entry of the cache. The holder removes the lock file, so that an absent version leaves
    nothing.

    A process that waited on a removed file holds nothing: only a file that still exists after the wait counts.
    """
    file = Path(f"{directory}.lock")
    while True:
        file.touch()
        before = _inode(file)
        with filelock.FileLock(file):
            if before is None or _inode(file) != before:
                continue
            try:
                yield
            finally:
                file.unlink(missing_ok=True)
            return


def _inode(file: Path) -> int | None:
    try:
        return file.stat().st_ino
    except FileNotFoundError:
        return None


def _named(package: Package, version: str) -> str:
    return f"{package.name} {version}"


def _releases() -> Path:
    return cache_directory() / "releases"


def _directory(package: Package, version: str) -> Path:
    return _releases() / f"{package.entry or package.name}-{version}"


def _sound(directory: Path, manifest: Manifest) -> bool:
    """Whether every file of the manifest is there, unchanged."""
    try:
        return all(
            hashlib.sha256((directory / file).read_bytes()).hexdigest() == checksum
            for file, checksum in manifest.files.items()
        )
    except OSError:
        return False


def _fetch(package: Package, version: str, directory: Path, announce: Announce | None) -> None:
    """Fill `directory`. The caller holds its lock, so leftovers of an earlier attempt are unused."""
    prefix = f".{directory.name}-"
    for leftover in directory.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=directory.parent) as work:
        wheel = download_wheel(package.name, version, Path(work), announce)
        entry = Path(work) / "entry"
        _unpack(package, version, wheel, entry)
        if directory.exists():
            shutil.rmtree(directory)
        entry.rename(directory)


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
