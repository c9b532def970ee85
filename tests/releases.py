"""Releases of vLLM that tests need: downloaded once, into the user's own cache.

If one is not available, the test is skipped with the reason; if HARNESS_REQUIRE_RELEASE is 1, as in CI, it fails.
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
    """The target, after its kernel sources have been downloaded."""
    with _needed():
        prepare(target)
    return target


def with_scheduler(release: str) -> str:
    """The release, if its scheduler can be driven here."""
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
