"""Downloading gets one wheel through pip, so that the user's own index, proxy and credentials apply.

pip prints much, and shows its progress only on terminals. Here a failure becomes one line, and progress is what can be
measured from outside: the bytes that have arrived, and the size that pip announces.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Protocol, runtime_checkable

from harness.kernels.cache_directory import cache_directory
from harness.refusal import UnknownTarget

# Only Python files are kept, so the wheel of any platform works. Naming one platform gives the same result on every
# host, also on those for which the package has no wheel.
_WHEEL_TAGS = (
    "--implementation=cp",
    "--python-version=3.12",
    *(f"--abi={abi}" for abi in ("cp312", "abi3", "none")),
    *(f"--platform=manylinux_2_{glibc}_x86_64" for glibc in (17, 24, 28, 31, 34, 35)),
    "--platform=manylinux1_x86_64",
)

GET_PIP = "`python -m ensurepip` or `uv pip install pip` installs it"
"""What to do if there is no pip. It is a dependency of this project, so it must have been removed."""

_UNITS = {"bytes": 1, "kB": 1000, "MB": 1000**2, "GB": 1000**3}

Announce = Callable[[str], None]
"""Takes one line that tells the user why something takes long."""


@runtime_checkable
class ShowsProgress(Protocol):
    """An Announce that also gets the progress of a download."""

    def progress(self, done: int, total: int | None) -> None:
        """`done` of about `total` bytes have arrived; the total is None while it is not known."""


def package_installer() -> str | None:
    """The module that downloads (`pip`), or None if this Python lacks it."""
    return "pip" if importlib.util.find_spec("pip") is not None else None


def disk_is_full(named: str) -> str:
    """The line about a full disk, for the package and version `named`."""
    return f"{named}: the disk of the cache directory {cache_directory()} is full"


def download_wheel(package: str, version: str, work: Path, announce: Announce | None) -> Path:
    """Download the wheel of a release into the folder `work`. Raises UnknownTarget with one line."""
    named = f"{package} {version}"
    if package_installer() is None:
        raise UnknownTarget(f"{named} is not in the cache, and this Python has no pip to get it with; {GET_PIP}")
    target = work / "wheel"
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"),
        *("--no-input", "--disable-pip-version-check", "--no-color", "--progress-bar=off", *_WHEEL_TAGS),
        *("--dest", str(target), f"{package}=={version}"),
    ]
    status, errors = _run(command, work, named, announce, announce if isinstance(announce, ShowsProgress) else None)
    if status != 0:
        raise UnknownTarget(explain(named, errors))
    withdrawn = re.search(r"Reason for being yanked: (.*)", errors)
    if withdrawn:  # a bug report about it would not help
        raise UnknownTarget(f"{named} was withdrawn by its publisher: {withdrawn[1].strip() or 'no reason given'}")
    wheels = sorted(target.glob("*.whl"))
    if len(wheels) != 1:
        raise UnknownTarget(f"{named}: pip left {len(wheels)} wheels where one was expected")
    return wheels[0]


def _run(
    command: list[str], work: Path, named: str, announce: Announce | None, watcher: ShowsProgress | None
) -> tuple[int, str]:
    """Run pip; returns its exit status and its standard error output. Announces the download once pip begins it."""
    size: int | None = None
    with _text_file() as output, _text_file() as errors:
        # pip's own temporary files also hold the whole wheel: keep them where they are cleaned up and have room.
        environment = {**os.environ, "TMPDIR": str(work)}
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, text=True, env=environment
        )
        try:
            while process.poll() is None:
                if size is None:
                    size = _announced_size(output.fileno())
                    if size is not None and announce is not None:
                        announce(f"downloading {named}, {size / 1e6:.0f} MB")
                if watcher is not None:
                    watcher.progress(_bytes_below(work), size)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
        except BaseException:
            process.kill()
            process.wait()
            raise
        if watcher is not None:
            done = _bytes_below(work)
            watcher.progress(done, done)
        errors.seek(0)
        return process.returncode, errors.read()


def _text_file() -> IO[str]:
    """A temporary file for pip's output, which may or may not be UTF-8, in any locale."""
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")


def _announced_size(output: int) -> int | None:
    """The size in pip's line `Downloading x.whl (512.3 MB)`, once it has been printed."""
    text = os.pread(output, 1 << 16, 0).decode(errors="replace")
    match = re.search(r"Downloading .*\(([\d.]+) (bytes|kB|MB|GB)\)", text)
    return int(float(match[1]) * _UNITS[match[2]]) if match else None


def _bytes_below(folder: Path) -> int:
    """Bytes in the largest file below `folder`: pip writes a wheel to a temporary place and then copies it."""
    largest = 0
    for directory, _, files in os.walk(folder):  # unlike rglob, it tolerates files that disappear meanwhile
        for file in files:
            with contextlib.suppress(OSError):
                largest = max(largest, os.stat(os.path.join(directory, file)).st_size)
    return largest


def explain(named: str, output: str) -> str:
    """One line for pip's many."""
    if "No space left on device" in output or "Errno 28" in output:
        return disk_is_full(named)
    versions = re.search(r"\(from versions: ([^)]*)\)", output)
    if versions:
        known = [text.strip() for text in versions[1].split(",") if text.strip() not in ("", "none")]
        if known:
            return f"{named} was never released, or has no wheel; there are {', '.join(known[-16:])}"
        return f"{named} is not in the cache, and no package index could be reached or has it"
    errors = [line for line in output.splitlines() if line.startswith("ERROR:")]
    message = re.sub(r"^ERROR:\s*", "", errors[-1]) if errors else "no reason given"
    return f"{named} could not be downloaded; pip says: {_without_hosts(message)[:160]}"


def _without_hosts(text: str) -> str:
    """Remove host names: the source of a machine's packages does not belong in a report."""
    text = re.sub(r"(https?|file)://\S+", "(address)", text)
    return re.sub(r"\b[\w-]+(\.[\w-]+)*\.(org|com|net|io|dev)\b", "(host)", text)
