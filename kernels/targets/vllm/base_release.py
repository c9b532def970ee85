"""The base release of a target is the known release that its sources were made from: the nearest one by content.

A checkout is judged against it: what it has lost, which known issues are its own, and what an edit changed. A known
release has none. Those of a checkout, of the installed vLLM and of a release that is newer than all known ones are
found by comparing the files that are kept of a release: the one with most files equal, then with most lines in
common, then the newest.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from harness.kernels.targets.downloading import Announce
from harness.kernels.targets.releases import Manifest, listed
from harness.kernels.targets.vllm.family import RELEASES
from harness.kernels.targets.vllm.sources import (
    HYBRID,
    PATH_PREFIX,
    RELEASE_PREFIX,
    VLLM,
    VLLM_WHOLE,
    SourceTree,
    cached_tree,
    release_tree,
    source_tree,
)
from harness.refusal import UnknownTarget
from harness.suggestions import unknown
from harness.text import counted

NEAR = 0.9
"""If a release in the cache has this part of a target's files, none is downloaded to look for a nearer one."""


class BaseRelease(msgspec.Struct, frozen=True):
    """`version` of the release; `changed` are the kept files that the target has in another form, in addition, or not
    at all, by their paths (`vllm/...`)."""

    version: str
    changed: tuple[str, ...] = ()

    def __str__(self) -> str:
        """In words: `vllm 0.33.0 with 3 files changed`."""
        return f"{self.name} with {counted(len(self.changed), 'file')} changed" if self.changed else self.name

    @property
    def name(self) -> str:
        """`vllm 0.33.0`."""
        return f"vllm {self.version}"

    @property
    def tree(self) -> SourceTree:
        """Its sources. Raises UnknownTarget."""
        return cached_tree(self.version) or release_tree(self.version)


def is_compared(name: str) -> bool:
    """Whether a target, written without planted faults, is one whose base release has to be found."""
    if name.startswith(RELEASE_PREFIX):
        return name.removeprefix(RELEASE_PREFIX) not in RELEASES
    return name == "vllm" or name.startswith(PATH_PREFIX)


def takes_base(name: str) -> bool:
    """Whether a user may say what its base release is: a release says so itself."""
    return is_compared(name) and not name.startswith(RELEASE_PREFIX)


def require_base(version: str) -> None:
    """Raise UnknownTarget, with one line, if `version` is not a known release."""
    if version not in RELEASES:
        raise UnknownTarget(f"--base: {unknown('release', [version], RELEASES)}")


def base_of(
    name: str, wanted: str | None = None, announce: Announce | None = None, directory: Path | None = None
) -> BaseRelease | None:
    """The base release of a target, written without planted faults. `wanted` is what the user says it is, `directory`
    where the target's sources are, if that is known.

    None for a known release and for a target that is not vLLM, and, after a notice, if no release is here to compare
    with. Raises UnknownTarget if the target or the wanted release is not available.
    """
    if not is_compared(name):
        return None
    say: Announce = announce or (lambda text: None)
    root = source_tree(name, announce).directory if directory is None else directory
    files = _checksums(root)
    if wanted is not None:
        require_base(wanted)
        if _listed(wanted) is None:
            release_tree(wanted, announce)
        found: tuple[str, Mapping[str, str]] | None = (wanted, _listed(wanted) or {})
    else:
        found = _nearest(root, files, say)
    if found is None:
        return None
    version, theirs = found
    return BaseRelease(version, tuple(sorted({file for file, _ in files.items() ^ theirs.items()})))


def _nearest(root: Path, files: Mapping[str, str], announce: Announce) -> tuple[str, Mapping[str, str]] | None:
    """The nearest release in the cache and its checksums. The newest one is downloaded if none is near."""
    known = {version: found for version in RELEASES if (found := _listed(version)) is not None}

    def equal(version: str) -> int:
        return len(files.items() & known[version].items())

    newest = RELEASES[-1]
    most = max(map(equal, known), default=0)
    if newest not in known and most < NEAR * len(files):
        try:
            release_tree(newest, announce)
        except UnknownTarget as refusal:
            rest = "only older releases are" if known else "no release is: what is lost or fixed cannot be said"
            announce(f"to compare with: {refusal}; {rest}")
        else:
            known[newest] = _listed(newest) or {}
            most = max(most, equal(newest))
    tied = [version for version in known if equal(version) == most]
    if not tied:
        return None
    version = tied[-1] if len(tied) == 1 else max(reversed(tied), key=_lines_in_common(root))
    return version, known[version]


def _listed(version: str) -> Mapping[str, str] | None:
    """Checksums of the kept files of a release in the cache, by path; None if it is not there."""
    manifest: Manifest | None = listed(VLLM, version) or listed(VLLM_WHOLE, version)
    if manifest is None:
        return None
    return {file: checksum for file, checksum in manifest.files.items() if file.startswith(VLLM.kept)}


def _checksums(root: Path) -> Mapping[str, str]:
    return {file: hashlib.sha256(path.read_bytes()).hexdigest() for file, path in _kept(root)}


def _kept(root: Path) -> Iterator[tuple[str, Path]]:
    """The files below `root` that are kept of a release."""
    for folder in VLLM.kept:
        for path in (root / folder).rglob("*.py"):
            if path.is_file():
                yield path.relative_to(root).as_posix(), path


def _lines_in_common(root: Path) -> Callable[[str], int]:
    """How many lines of its most telling files a release shares with the sources in `root`."""
    texts = {file: _lines(root / file) for file in (*VLLM.needed, HYBRID)}

    def shared(version: str) -> int:
        tree = cached_tree(version)
        if tree is None:
            return 0
        return sum((lines & _lines(tree.path(file))).total() for file, lines in texts.items())

    return shared


def _lines(path: Path) -> Counter[str]:
    """The lines of a file, without their ends; none if it cannot be read as text."""
    try:
        return Counter(line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError):
        return Counter()
