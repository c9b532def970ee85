"""An installation without the package ray."""

from __future__ import annotations

import importlib.abc
from typing import Any


class NoRay(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name == "ray":
            raise ModuleNotFoundError("No module named 'ray'", name="ray")
