"""The store reads and writes repro files: whole or not at all, and never more than a bounded number of bytes."""

from __future__ import annotations

import codecs
import contextlib
import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from harness.case import InvalidCase, encode_case
from harness.repro.format import REPRO_VERSION, Repro

if TYPE_CHECKING:
    from harness.repro.sequences import SequenceRepro

MAX_BYTES = 64 << 20
"""Most bytes of a repro file; the largest case the schema allows is smaller."""


def repro_name(repro: Repro) -> str:
    """A file name that says what was found; the digits tell findings of one signature apart."""
    signature = repro.signature
    parts = [signature.operation, signature.relation or "", signature.violation, signature.object]
    if signature.conv_layout != "-":
        parts.append(signature.conv_layout)
    digest = hashlib.sha256(encode_case(repro.case)).hexdigest()[:8]
    name = "-".join(filter(None, parts)).lower()
    return "".join(c if c.isalnum() or c == "-" else "_" for c in name) + f"-{digest}.json"


def write_repro(path: Path, repro: Repro | SequenceRepro) -> None:
    """Write a repro file as `write_whole` does."""
    write_whole(path, msgspec.json.format(msgspec.json.encode(repro), indent=1))


def write_whole(path: Path, text: bytes) -> None:
    """Write atomically: a killed process leaves the old file or the new one. Raises OSError that names `path`."""
    try:
        _replace(path, text)
    except OSError as error:  # of a full disk the error itself names no file, of others the temporary one
        raise OSError(error.errno, os.strerror(error.errno or errno.EIO), str(path)) from error


def _replace(path: Path, text: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def text_of(path: Path) -> bytes:
    """The text of a file, without the byte order mark that some editors put in front of it. Raises OSError."""
    return path.read_bytes().removeprefix(codecs.BOM_UTF8)


def read_repro(path: Path) -> Repro:
    """Read a repro file. Raises InvalidCase, with one line, for whatever is wrong with it."""
    try:
        if not path.is_file():
            raise InvalidCase(f"{path}: no such file" if not path.exists() else f"{path}: not a file")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InvalidCase(f"{path}: {size} bytes, more than a repro file may have ({MAX_BYTES})")
        text = text_of(path)
    except OSError as error:
        raise InvalidCase(f"{path}: cannot be read: {error.strerror or error}") from error
    _check_version(path, text)
    try:
        return msgspec.json.decode(text, type=Repro)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise InvalidCase(f"{path}: not a valid repro file: {error}") from error


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Whatever is wrong with the case of a file names the file: InvalidCase is raised again with its path in front."""
    try:
        yield
    except InvalidCase as error:
        if str(error).startswith(f"{path}: "):
            raise
        raise InvalidCase(f"{path}: {error}") from error


class _Header(msgspec.Struct):
    harness_repro: int


def _check_version(path: Path, text: bytes) -> None:
    try:
        header = msgspec.json.decode(text, type=_Header)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise InvalidCase(f"{path}: not a repro file: {error}") from error
    if header.harness_repro != REPRO_VERSION:
        raise InvalidCase(
            f"{path}: repro format {header.harness_repro}; this version of harness reads format {REPRO_VERSION}"
        )


def require_writable_file(path: Path) -> None:
    """Raise OSError if no repro file could be written as `path`, whose folder need not exist.

    Nor if it is a device or a pipe: writing puts a new file in its place, so that a superuser's machine would lose it.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file, and would be replaced by one", str(path))
    require_writable(path.parent)


def require_writable(folder: Path) -> None:
    """Raise OSError if no repro file could be written to `folder`, which need not exist: a campaign asks before its
    first case, not at its first finding."""
    nearest = folder.absolute()
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(nearest))
    # Only trying tells: permissions say nothing to a superuser, nor of /proc, a read-only or a full disk.
    try:
        with tempfile.TemporaryFile(dir=nearest, prefix=".") as file:
            file.write(b"\n")
    except OSError as error:
        what = f"no file can be written here: {error.strerror or error}"
        raise OSError(error.errno, what, str(nearest)) from error
