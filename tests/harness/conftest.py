"""Fixtures for tests that start workers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

BROKEN = Path(__file__).with_name("broken_targets")


@pytest.fixture
def broken_targets(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Workers started from now on know the targets `broken:HOW`: an installed package brings them."""
    path = os.pathsep.join(filter(None, [str(BROKEN), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)
    return BROKEN
