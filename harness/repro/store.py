"""The store reads and writes repro files: whole or not at all, and never more than a bounded number of bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.case import InvalidCase
from harness.files import NotSaved, text_of, write_whole
from harness.repro.format import REPRO_TYPES, REPRO_VERSION, AnyRepro, Repro
from harness.suggestions import unknown
from harness.text import reason

MAX_BYTES = 64 << 20
"""Maximum number of bytes of a repro file; the largest case the schema allows is smaller."""

PLAIN = "case"
"""The kind of a file that does not name one."""

LONGEST_KIND = 40
"""The number of characters of an unknown kind that messages show."""


def write_repro(path: Path, repro: AnyRepro) -> None:
    """Write a repro file as `write_whole` does."""
    write_whole(path, encode_repro(repro))


def encode_repro(repro: AnyRepro) -> bytes:
    """What a repro file holds."""
    return msgspec.json.format(msgspec.json.encode(repro), indent=1)


def save(path: Path, repro: AnyRepro) -> None:
    """Write a repro file while a campaign runs. Raises NotSaved, which says what was found."""
    try:
        write_repro(path, repro)
    except OSError as error:
        origin = repro.origin
        case = "" if origin.index is None else f", seed {origin.seed}, case {origin.index}"
        raise NotSaved(f"{repro.signature}{case}", error) from error


def read_any(path: Path) -> tuple[str, AnyRepro]:
    """Read a repro file of any kind: the kind, and what it holds.

    Raises InvalidCase, with one line, if anything is wrong with it.
    """
    text = _read(path)
    try:
        header = msgspec.json.decode(text, type=_Header)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise InvalidCase(f"{path}: not a repro file: {reason(error)}") from error
    if header.harness_repro != REPRO_VERSION:
        raise InvalidCase(
            f"{path}: repro format {header.harness_repro}; this version of harness reads format {REPRO_VERSION}"
        )
    kind = PLAIN if header.kind is msgspec.UNSET else header.kind
    if kind not in REPRO_TYPES:
        raise InvalidCase(f"{path}: {unknown('kind', [kind[:LONGEST_KIND]], REPRO_TYPES)}")
    try:
        if header.kind == PLAIN:
            text = _without_kind(text)
        return kind, msgspec.json.decode(text, type=REPRO_TYPES[kind])
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise InvalidCase(f"{path}: not a valid repro file: {reason(error)}") from error


def read_repro(path: Path) -> Repro:
    """Read a repro file that holds a kernel case. Raises InvalidCase."""
    _, repro = read_any(path)
    if not isinstance(repro, Repro):
        raise InvalidCase(f"{path}: not a kernel case")
    return repro


def _without_kind(text: bytes) -> bytes:
    """A file without its kind: the format of kernel cases has no field for it, so that older versions can read it."""
    fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    del fields["kind"]
    return msgspec.json.encode(fields)


class _Header(msgspec.Struct):
    harness_repro: int
    kind: str | msgspec.UnsetType = msgspec.UNSET


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise InvalidCase(f"{path}: no such file" if not path.exists() else f"{path}: not a file")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InvalidCase(f"{path}: {size} bytes, more than a repro file may have ({MAX_BYTES})")
        return text_of(path)
    except OSError as error:
        raise InvalidCase(f"{path}: cannot be read: {error.strerror or error}") from error


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the path of a file in front of messages about its case: InvalidCase is raised again with it."""
    try:
        yield
    except InvalidCase as error:
        if str(error).startswith(f"{path}: "):
            raise
        raise InvalidCase(f"{path}: {error}") from error
