"""Releases of vLLM that tests need: downloaded once, into the user's own cache.

Where one cannot be had, the test is skipped with the reason; where HARNESS_REQUIRE_RELEASE is 1, as in CI, it fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.kernels.targets.registry import prepare
from harness.kernels.targets.vllm.scheduling.sources import require_packages, whole_tree
from harness.refusal import UnknownTarget

REQUIRE_VARIABLE = "HARNESS_REQUIRE_RELEASE"


def with_kernels(target: str) -> str:
    """The target, whose sources of kernels are here."""
    with _needed():
        prepare(target)
    return target


def with_scheduler(release: str) -> str:
    """The release, whose scheduler can be driven here."""
    with _needed():
        require_packages()
        whole_tree(release)
    return release


@contextmanager
def _needed() -> Iterator[None]:
    try:
        yield
    except UnknownTarget as error:
        if os.environ.get(REQUIRE_VARIABLE) == "1":
            pytest.fail(f"{REQUIRE_VARIABLE} is set, but {error}")
        pytest.skip(str(error))
