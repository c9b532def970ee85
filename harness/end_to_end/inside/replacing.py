"""Replacing is how a function of the release is exchanged for a stand-in; what was exchanged is listed in every
report."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import msgspec


class Replacement(msgspec.Struct, frozen=True):
    """`name` is the full name of what was replaced, `by` says by what, `why` what the CPU lacks."""

    name: str
    by: str
    why: str

    @property
    def line(self) -> str:
        """A line of a report."""
        return f"{self.name}: {self.by} ({self.why})"


class Replacer:
    """Exchanges objects of modules. `made` is what it has exchanged so far."""

    def __init__(self) -> None:
        self.made: list[Replacement] = []

    def in_module(self, module: str, stand_ins: Mapping[str, Any], by: str, why: str) -> None:
        """Exchange functions of one module for that module alone: other users keep the release's own. A name that the
        module does not have is left out."""
        loaded = importlib.import_module(module)
        for name, stand_in in stand_ins.items():
            if hasattr(loaded, name):
                setattr(loaded, name, stand_in)
                self.made.append(Replacement(f"{module}.{name}", by, why))

    def attribute(self, owner: Any, name: str, stand_in: Any, by: str, why: str) -> None:
        """Exchange an attribute of a class or a module."""
        setattr(owner, name, stand_in)
        where = owner.__name__ if isinstance(owner, ModuleType) else f"{owner.__module__}.{owner.__qualname__}"
        self.made.append(Replacement(f"{where}.{name}", by, why))

    def note(self, name: str, by: str, why: str) -> None:
        """Something that is exchanged elsewhere, in the one place that reports list."""
        self.made.append(Replacement(name, by, why))
