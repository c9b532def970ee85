"""Fixtures for tests of targets: releases are downloaded once, into the user's own cache."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.releases import with_kernels


@pytest.fixture(scope="session")
def have_release() -> Callable[[str], str]:
    """Call it with a target text: it makes the release's sources available, or skips the test with the reason."""
    return with_kernels
