"""Files are written whole or not at all, and whether they can be written is checked before the work, not after it."""

from __future__ import annotations

import codecs
import errno
import os
import tempfile
from pathlib import Path


class NotSaved(Exception):
    """Something could not be written, on a full disk for example. The message says what it was."""

    def __init__(self, what: str, error: OSError) -> None:
        number = error.errno or errno.EIO
        self.parts = (what, number, error.strerror or os.strerror(number), str(error.filename or ""))
        """What it was; the number, message and file of the error."""
        self.error = OSError(number, f"{self.parts[2]}; {what} is not saved, and the campaign ends", error.filename)


def write_whole(path: Path, text: bytes) -> None:
    """Write a text and a line break with `replace_file`, durably. Raises OSError that names `path`."""
    replace_file(path, text + b"\n", to_last=True)


def replace_file(path: Path, data: bytes, *, to_last: bool = False) -> None:
    """Write atomically: a killed process leaves the old file or the new one, and with `to_last` so does a machine that
    loses power. Raises OSError that names `path`."""
    try:
        _replace(path, data, to_last)
    except OSError as error:  # on a full disk the error names no file, in other cases the temporary one
        raise OSError(error.errno, os.strerror(error.errno or errno.EIO), str(path)) from error


def _replace(path: Path, data: bytes, to_last: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if to_last:
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


def require_writable_file(path: Path) -> None:
    """Raise OSError if no file could be written as `path`, whose folder need not exist.

    It also raises if `path` is a device or a pipe: writing replaces it by a new file, so a superuser's machine would
    lose it.
    """
    require_regular(path, ", and would be replaced by one")
    require_writable(path.parent)


def require_text(path: Path) -> None:
    """Raise OSError if a path is no text: reports and other files could not name it."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise OSError(errno.EILSEQ, "its name is no valid text", str(path)) from None


def require_regular(path: Path, more: str = "") -> None:
    """Raise OSError, whose message ends with `more`, if `path` exists and is not a regular file."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, f"not a regular file{more}", str(path))


def require_writable(folder: Path) -> None:
    """Raise OSError if no file could be written to `folder`, which need not exist: a campaign asks before its first
    case, not at its first finding."""
    require_text(folder)
    nearest = folder.absolute()
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(nearest))
    # Only trying shows it: permissions say nothing for a superuser, /proc, or a read-only or full disk.
    try:
        with tempfile.TemporaryFile(dir=nearest, prefix=".") as file:
            file.write(b"\n")
    except OSError as error:
        what = f"no file can be written here: {error.strerror or error}"
        raise OSError(error.errno, what, str(nearest)) from error
