"""Fixtures for tests of targets: releases are downloaded once, into the user's own cache."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from harness.kernels.targets.registry import prepare
from harness.refusal import UnknownTarget

REQUIRE_VARIABLE = "HARNESS_REQUIRE_RELEASE"
"""Environment variable: `1` where a release that cannot be had must fail the tests, as in CI."""


@pytest.fixture(scope="session")
def have_release() -> Callable[[str], str]:
    """Call it with a target text: it makes sure of the release's sources, or skips the test with the reason."""

    def have(text: str) -> str:
        try:
            prepare(text)
        except UnknownTarget as error:
            if os.environ.get(REQUIRE_VARIABLE) == "1":
                pytest.fail(f"{REQUIRE_VARIABLE} is set, but {error}")
            pytest.skip(str(error))
        return text

    return have
