"""The vLLM family of targets: `vllm==X` (a release), `vllm` (the installed one), `path:DIR` (a checkout).

The registry of targets uses this module; it imports neither torch nor triton until a target is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from harness.kernels.targets.base import Target
from harness.kernels.targets.downloading import Announce, package_installer
from harness.kernels.targets.family import KnownTarget
from harness.kernels.targets.releases import DOWNLOADS_FORBIDDEN, check_version, listed, offline
from harness.kernels.targets.vllm.known_releases import RELEASES
from harness.kernels.targets.vllm.sources import (
    PATH_PREFIX,
    RELEASE_PREFIX,
    VLLM,
    checkout_tree,
    installed_tree,
    source_tree,
)
from harness.refusal import UnknownTarget

if TYPE_CHECKING:
    from harness.kernels.executors.base import Executor
    from harness.kernels.mutations.mutation import Mutation


class VllmFamily:
    """See harness.kernels.targets.family.TargetFamily."""

    forms = ("vllm==VERSION", "vllm", "path:DIRECTORY")

    def claims(self, name: str) -> bool:
        return name == "vllm" or name.startswith((RELEASE_PREFIX, PATH_PREFIX))

    def check(self, name: str) -> None:
        if name.startswith(RELEASE_PREFIX):
            check_version(VLLM, name.removeprefix(RELEASE_PREFIX))
        elif name.startswith(PATH_PREFIX):
            checkout_tree(name.removeprefix(PATH_PREFIX))
        else:
            installed_tree()

    def prepare(self, name: str, announce: Announce | None) -> None:
        source_tree(name, announce)

    def known(self) -> Iterator[KnownTarget]:
        for version in reversed(RELEASES):
            if listed(VLLM, version) is not None:
                summary, why_not = "release of vLLM; its sources are in the cache", None
            else:
                summary, why_not = "release of vLLM; its sources are downloaded once", _cannot_download()
            yield KnownTarget(f"{RELEASE_PREFIX}{version}", summary, why_not)
        yield KnownTarget("vllm", "the vLLM installed next to the harness", _reason(installed_tree))
        yield KnownTarget("path:DIRECTORY", "a checkout of vLLM's repository", None)

    def load(self, name: str, mutations: Sequence[Mutation], executor: Executor) -> Target:
        from harness.kernels.targets.vllm.target import VllmTarget

        full_name = "+".join([name, *(mutation.name for mutation in mutations)])
        return VllmTarget(full_name, source_tree(name, None), executor, mutations)


def _cannot_download() -> str | None:
    if offline():
        return DOWNLOADS_FORBIDDEN
    return None if package_installer() else "this Python has no pip"


def _reason(locate: object) -> str | None:
    assert callable(locate)
    try:
        locate()
    except UnknownTarget as error:
        return str(error)
    return None
