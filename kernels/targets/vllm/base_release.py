"""The base release of a target is the known release that its sources were made from: the nearest one by content.

A checkout is judged against it: what it has lost, which known issues are its own, and what an edit changed. A known
release has none. Those of a checkout, of the installed vLLM and of a release that is newer than all known ones are
found by comparing the files that are kept of a release: the one with most files equal, then with most lines in
common, then the newest. A far one is none: its rules and its issues are those of other code.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from harness.kernels.targets.downloading import Announce
from harness.kernels.targets.releases import Manifest, Package, listed, release
from harness.kernels.targets.vllm.known_releases import RELEASES
from harness.kernels.targets.vllm.python_text import NotPythonText, python_text
from harness.kernels.targets.vllm.sources import (
    HYBRID,
    PATH_PREFIX,
    RELEASE_PREFIX,
    VLLM,
    VLLM_WHOLE,
    SourceTree,
    cached_tree,
    cached_whole_tree,
    release_tree,
    source_tree,
)
from harness.refusal import UnknownTarget
from harness.suggestions import unknown
from harness.text import counted

NEAR = 0.9
"""If a release in the cache has this part of a target's files, none is downloaded to look for a nearer one."""

FAR = 1 / 3
"""A release with less than this part of a target's files is far, unless most lines are equal as well (SAME_LINES).

Parts of the kept files of one release that another one has: of 0.23.0, 0.63 are in 0.22.0 and 0.54 in 0.24.0; of
0.26.0, 0.62 in 0.25.1 and 0.60 in 0.27.0; of 0.30.0, 0.53 in 0.29.0 and 0.38 in 0.31.0; of 0.31.0, 0.36 in 0.30.0 (the
least of all neighbours) and 0.56 in 0.32.0; of 0.33.0, 0.55 in 0.32.0. Two releases away it is 0.27 to 0.48; of 0.33.0,
0.39 are in 0.31.0, 0.23 in 0.30.0, 0.19 in 0.29.0, 0.17 in 0.28.0 and 0.09 in 0.22.0. Of all Python files the parts are
greater by about a tenth."""

SAME_LINES = 0.98
"""A release is near, whatever files are equal, if it shares this part of the lines of the most telling files, in both
directions: a checkout may have a line more in every file. Only neighbours share as much (0.32.0 and 0.33.0: 0.99;
0.29.0 and 0.31.0: 0.97)."""

BUILT = ("vllm/third_party/", "vllm/vllm_flash_attn/")
"""Folders that a build fills, so that a release has files there and a checkout may not."""

VERSION_FILE = "vllm/_version.py"
"""Made by a build; its text differs from build to build."""


NOT_COMPARED = "no release was at hand to compare with"
"""For answers about a target that has to be compared and was not."""


class BaseRelease(msgspec.Struct, frozen=True):
    """`version` of the release; `changed` are the files in the `compared` folders that the target has in another form,
    in addition, or not at all, by their paths (`vllm/...`)."""

    version: str
    changed: tuple[str, ...] = ()
    compared: tuple[str, ...] = VLLM.kept

    def __str__(self) -> str:
        """In words: `vllm 0.33.0 with 3 files changed`, and what was compared unless that is all."""
        changed = f" with {counted(len(self.changed), 'file')} changed" if self.changed else ""
        folders = ",".join(folder.removeprefix("vllm/").rstrip("/") for folder in self.compared)
        return f"{self.name}{changed}" + ("" if self.is_whole else f"; compared: vllm/{{{folders}}}")

    @property
    def name(self) -> str:
        """`vllm 0.33.0`."""
        return f"vllm {self.version}"

    @property
    def is_whole(self) -> bool:
        """Whether all Python files of vLLM were compared."""
        return self.compared == VLLM_WHOLE.kept

    @property
    def tree(self) -> SourceTree:
        """Its sources, of all that was compared. Raises UnknownTarget."""
        if self.is_whole:
            return SourceTree(release(VLLM_WHOLE, self.version).directory, self.name, stable=True)
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


def how_to_have_one(name: str) -> str:
    """What a user can do where a target has no base release, in words."""
    newest = RELEASES[-1]
    ways = []
    if _listed(newest) is None:
        ways.append(f"`harness cache fetch {newest}` where there is a network")
    if takes_base(name):
        ways.append("--base with the release that it was made from")
    return ", or ".join(ways) or f"a harness that knows later releases than {newest}"


def base_of(
    name: str,
    wanted: str | None = None,
    announce: Announce | None = None,
    directory: Path | None = None,
    *,
    whole: bool = False,
) -> BaseRelease | None:
    """The base release of a target, written without planted faults. `wanted` is what the user says it is, `directory`
    where the target's sources are, if that is known. `whole`: compare all Python files, if those of the release are in
    the cache; a release that is downloaded is kept whole.

    None for a known release and for a target that is not vLLM, and, after a notice, if no release is here to compare
    with, or only far ones. Raises UnknownTarget if the target or the wanted release is not available.
    """
    if not is_compared(name):
        return None
    say: Announce = announce or (lambda text: None)
    package = VLLM_WHOLE if whole else VLLM
    root = source_tree(name, announce).directory if directory is None else directory
    files = _checksums(root, VLLM)
    version: str | None
    if wanted is not None:
        require_base(wanted)
        if _listed(wanted) is None:
            release(package, wanted, announce)
        if _is_far(root, files, wanted):
            say(
                f"--base {wanted} is far: {_equal_part(files, wanted)}; what releases changed since may be reported as "
                "lost, as edits or as findings"
            )
        version = wanted
    else:
        version = _nearest(name, root, files, package, say)
    if version is None:
        return None
    if whole and cached_whole_tree(version) is not None:
        files, theirs, compared = _checksums(root, VLLM_WHOLE), _listed(version, VLLM_WHOLE), VLLM_WHOLE.kept
    else:
        theirs, compared = _listed(version), VLLM.kept
    return BaseRelease(version, tuple(_changed(files, theirs or {})), compared)


def sources_of(name: str) -> dict[str, str]:
    """What says which sources a target, written without planted faults, has: a checksum of all its Python files, as
    `sources`. Nothing for a known release and for a target that is not vLLM: their names say it. Raises UnknownTarget.
    """
    if not is_compared(name):
        return {}
    files = _checksums(source_tree(name).directory, VLLM_WHOLE)
    text = "".join(f"{file} {checksum}\n" for file, checksum in sorted(files.items()))
    return {"sources": hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]}


def _changed(files: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[str]:
    """Files that are not the same, without those that a build has made."""
    for file in sorted({file for file, _ in files.items() ^ theirs.items()}):
        if file != VERSION_FILE and (file in files or not file.startswith(BUILT)):
            yield file


def _nearest(name: str, root: Path, files: Mapping[str, str], package: Package, announce: Announce) -> str | None:
    """The nearest release in the cache, unless it is far. The newest one is downloaded if none is near."""
    known = [version for version in RELEASES if _listed(version) is not None]
    newest = RELEASES[-1]
    most = max((_equal(files, version) for version in known), default=0)
    refused = ""
    if newest not in known and most < NEAR * len(files):
        try:
            release(package, newest, announce)
        except UnknownTarget as refusal:
            refused = f"{refusal}"
        else:
            known.append(newest)
            most = max(most, _equal(files, newest))
    tied = [version for version in known if _equal(files, version) == most]
    found = max(reversed(tied), key=lambda version: _lines_in_common(root, version), default=None)
    if found is not None and not _is_far(root, files, found):
        if refused:
            announce(f"compared with older releases alone: {refused}")
        return found
    near = "" if found is None else f"vllm {found}, the nearest that is here, is far ({_equal_part(files, found)})"
    announce(
        f"{name} has no release to compare with, so what it has lost, and old issues that are back, are not seen: "
        f"{'; '.join(filter(None, (near, refused)))}. What helps: {how_to_have_one(name)}"
    )
    return None


def _equal(files: Mapping[str, str], version: str) -> int:
    return len(files.items() & (_listed(version) or {}).items())


def _equal_part(files: Mapping[str, str], version: str) -> str:
    """In words."""
    return f"{_equal(files, version)} of {counted(len(files), 'file')} are equal"


def _is_far(root: Path, files: Mapping[str, str], version: str) -> bool:
    if _equal(files, version) >= FAR * len(files):
        return False
    return _lines_in_common(root, version) < SAME_LINES


def _listed(version: str, package: Package = VLLM) -> Mapping[str, str] | None:
    """Checksums of the files of a release in the cache that `package` keeps, by path; None if it is not there."""
    manifest: Manifest | None = listed(package, version) or listed(VLLM_WHOLE, version)
    if manifest is None:
        return None
    return {file: checksum for file, checksum in manifest.files.items() if file.startswith(package.kept)}


def _checksums(root: Path, package: Package) -> Mapping[str, str]:
    return {file: hashlib.sha256(path.read_bytes()).hexdigest() for file, path in _kept(root, package.kept)}


def _kept(root: Path, folders: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """The Python files below `root` that are in some folders."""
    for folder in folders:
        for path in (root / folder).rglob("*.py"):
            if path.is_file():
                yield path.relative_to(root).as_posix(), path


def _lines_in_common(root: Path, version: str) -> float:
    """The part of the lines of its most telling files that a release shares with the sources in `root`: of the one that
    has more lines there."""
    tree = cached_tree(version)
    if tree is None:
        return 0.0
    ours, theirs, shared = 0, 0, 0
    for file in (*VLLM.needed, HYBRID):
        own, other = _lines(root / file), _lines(tree.path(file))
        ours, theirs, shared = ours + own.total(), theirs + other.total(), shared + (own & other).total()
    return shared / max(ours, theirs, 1)


def _lines(path: Path) -> Counter[str]:
    """The lines of a file, without their ends; none if it cannot be read as text."""
    try:
        return Counter(line.strip() for line in python_text(path).splitlines())
    except (OSError, NotPythonText):
        return Counter()
