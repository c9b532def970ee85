"""How much the releases among some targets have to download, announced in advance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.kernels.targets.releases import Package, listed, offline
from harness.kernels.targets.selection import release_of
from harness.kernels.targets.vllm.sources import VLLM

_WHEEL_MEGABYTES = 400
"""Approximate size of the wheel of a vLLM release."""


def announce_downloads(targets: Sequence[str], announce: Callable[[str], None], package: Package = VLLM) -> None:
    """Announce the size of the download, if more than one release is missing; `package` is what is kept of each, by
    default its kernels."""
    releases = {str(release) for target in targets if (release := release_of(target)) is not None}
    absent = [release for release in releases if listed(package, release) is None]
    if len(absent) > 1 and not offline():
        size = len(absent) * _WHEEL_MEGABYTES / 1000
        announce(
            f"{len(absent)} releases are not in the cache: wheels of about {size:.1f} GB in all are downloaded once"
        )
