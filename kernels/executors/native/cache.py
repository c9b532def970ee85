"""The variant cache keeps compiled variants on disk, so that a kernel is compiled once and not in every process.

An entry is written under another name and then renamed, so that readers see only complete entries; a checksum detects
damaged ones. If the cache cannot be written, one warning says so, and compilation continues.

These are warnings, not log lines: a worker passes them on to its campaign.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.files import replace_file
from harness.kernels.executors.native.accesses import AccessSite
from harness.kernels.executors.native.source_lines import SourceLine

ENTRY_LIMIT = 4096
"""Maximum number of entries; the oldest are removed first. One takes 10 to 40 KB."""

_DIGEST_BYTES = 32
_SUFFIX = ".variant"


@dataclass(frozen=True)
class CompiledVariant:
    """A kernel compiled for given constants and argument types: an object, and what its numbers mean."""

    object: bytes
    arguments: int
    sites: tuple[AccessSite, ...]
    blocks: tuple[tuple[SourceLine, ...], ...]
    owners: tuple[bytes, ...] = ()
    """For each site, the warp of each of its lanes; empty until requested."""
    phases: tuple[int, ...] = ()
    """For each site, its phase; empty until requested."""


class VariantCache:
    """Compiled variants in `directory`, by key; nothing is kept if it is None."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._written = 0

    @staticmethod
    def key(parts: Iterable[object]) -> str:
        """A digest of everything that affects the compiled result, usable as a file name."""
        return hashlib.sha256("\0".join(repr(part) for part in parts).encode()).hexdigest()

    def path(self, key: str) -> Path | None:
        """The path of the entry, if it exists."""
        return self._directory / f"{key}{_SUFFIX}" if self._directory else None

    def read(self, key: str) -> CompiledVariant | None:
        """The entry; None if there is no intact one."""
        path = self.path(key)
        if path is None:
            return None
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._give_up(error)
            return None
        payload = content[_DIGEST_BYTES:]
        if content[:_DIGEST_BYTES] != hashlib.sha256(payload).digest():
            warnings.warn(f"the cached variant {path} is damaged; compiling it again", stacklevel=2)
            return None
        return msgspec.msgpack.decode(payload, type=CompiledVariant)

    def write(self, key: str, variant: CompiledVariant) -> None:
        """Store an entry."""
        path = self.path(key)
        if path is None:
            return
        payload = msgspec.msgpack.encode(variant)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if self._written == 0:
                self._prune(path.parent)
            replace_file(path, hashlib.sha256(payload).digest() + payload)
            self._written += 1
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        warnings.warn(f"compiled kernels are not kept in {self._directory}: {error}", stacklevel=3)
        self._directory = None

    @staticmethod
    def _prune(directory: Path) -> None:
        entries = [entry for entry in os.scandir(directory) if entry.name.endswith(_SUFFIX)]
        if len(entries) <= ENTRY_LIMIT:
            return
        entries.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in entries[: len(entries) - ENTRY_LIMIT // 2]:
            Path(entry.path).unlink(missing_ok=True)
