"""Releases of vLLM that tests need: downloaded once, into the user's own cache.

If one is not available, the test is skipped with the reason; if HARNESS_REQUIRE_RELEASE is 1, as in CI, it fails.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.end_to_end.environments import environment, fetch
from harness.kernels.targets.registry import prepare
from harness.kernels.targets.vllm.scheduling.sources import require_packages, whole_tree
from harness.kernels.targets.vllm.sources import cached_tree, release_tree
from harness.refusal import UnknownTarget

REQUIRE_VARIABLE = "HARNESS_REQUIRE_RELEASE"
REQUIRE_ENGINE = "HARNESS_REQUIRE_ENGINE"


def with_kernels(target: str) -> str:
    """The target, after its kernel sources have been downloaded."""
    with _needed():
        prepare(target)
    return target


def sources(version: str) -> Path:
    """The folder with the kernel sources of a release. Nothing may be written there."""
    with _needed():
        return (cached_tree(version) or release_tree(version)).directory
    raise AssertionError  # `_needed` has raised


def editable(version: str, directory: Path) -> Path:
    """A copy of the kernel sources of a release, as a checkout to edit: its folder."""
    with _needed():
        shutil.copytree(release_tree(version).directory, directory, ignore=shutil.ignore_patterns("manifest.json"))
    return directory


def editable_whole(version: str, directory: Path) -> Path:
    """The same with all Python files, for step sequences. They are links, so only `edit` and `rename` may write."""
    tree = whole_tree(with_scheduler(f"vllm=={version}"))
    shutil.copytree(tree.directory / "vllm", directory / "vllm", copy_function=os.symlink)
    return directory


def edit(checkout: Path, file: str, old: str, new: str) -> None:
    """Replace the one occurrence of a text in a file of a checkout."""
    path = checkout / file
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{text.count(old)} times in {file}: {old}"
    path.unlink()  # it may be a link
    path.write_text(text.replace(old, new), encoding="utf-8")


def rename(checkout: Path, old: str, new: str, folder: str = "vllm") -> None:
    """Replace a name in all files of a checkout's folder."""
    for path in (checkout / folder).rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if re.search(rf"\b{old}\b", text):
            path.unlink()
            path.write_text(re.sub(rf"\b{old}\b", new, text), encoding="utf-8")


def with_scheduler(release: str) -> str:
    """The release, if its scheduler can be driven here."""
    with _needed():
        require_packages()
        whole_tree(release)
    return release


def with_engine(version: str) -> str:
    """The release, if an environment with its CPU build is here. Where engines are required it is made, in the user's
    cache: that takes eight minutes and 3.5 GB, so a test run that only could use it does not."""
    if os.environ.get(REQUIRE_ENGINE) == "1":
        try:
            fetch(version, print)
        except UnknownTarget as error:
            pytest.fail(f"{REQUIRE_ENGINE} is set, but {error}")
    elif environment(version) is None:
        pytest.skip(f"no environment with a CPU build of {version}: `harness engine fetch {version}` makes one")
    return f"vllm=={version}"


@contextmanager
def _needed() -> Iterator[None]:
    try:
        yield
    except UnknownTarget as error:
        if os.environ.get(REQUIRE_VARIABLE) == "1":
            pytest.fail(f"{REQUIRE_VARIABLE} is set, but {error}")
        pytest.skip(str(error))
