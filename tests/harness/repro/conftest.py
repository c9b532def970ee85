"""Frozen repro files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest


@pytest.fixture
def document(frozen: Path) -> dict[str, Any]:
    """A valid repro file as a JSON document, for tests to damage."""
    made = msgspec.json.decode((frozen / "wrong-group-minimal.json").read_bytes())
    assert isinstance(made, dict)
    return made
