"""A placeholder is a name that production code imports and, we believe, never uses on the paths under test.

It may be used in annotations, in `isinstance`, and as a base class. Calling it, instantiating it or reading an
attribute raises NotReplaced, which names it: production code was about to use something that does not exist, and its
result would be worthless.
"""

from __future__ import annotations

import importlib
from collections.abc import Container
from types import ModuleType
from typing import Any, NoReturn

from harness.kernels.targets.base import TargetIncomplete


class NotReplaced(TargetIncomplete):
    """Production code really used a name that has only a placeholder. The message is one line that names it.

    Not an AttributeError on purpose: `hasattr` and `getattr` with a default would swallow that.
    """


class _PlaceholderType(type):
    """The type of placeholders, which are classes so that `isinstance` and inheritance accept them."""

    def __call__(cls, *_arguments: Any, **_keywords: Any) -> NoReturn:
        raise NotReplaced(f"{_name(cls)} was called, but the harness has only a placeholder for it")

    def __getattr__(cls, attribute: str) -> NoReturn:
        if attribute.startswith("__"):  # the interpreter reads these: annotations, copy, inspect
            raise AttributeError(attribute)
        raise NotReplaced(f"{_name(cls)}.{attribute} was read, but the harness has only a placeholder for it")

    def __getitem__(cls, _parameters: Any) -> _PlaceholderType:
        return cls  # a generic class with parameters, in an annotation


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def placeholder(module: str, name: str) -> Any:
    """A new placeholder for `name` of `module`."""
    return _PlaceholderType(name, (), {"__module__": module, "__qualname__": name})


class PlaceholderModule(ModuleType):
    """A module whose names are placeholders, except the given `names` and the modules among `known`."""

    def __init__(self, name: str, names: dict[str, Any], known: Container[str]) -> None:
        super().__init__(name)
        # A package without files: imports of its submodules reach our finder.
        self.__path__: list[str] = []
        self.__dict__.update(names)
        self._known_modules = known

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full_name = f"{self.__name__}.{name}"
        if full_name in self._known_modules:  # from package import module
            return importlib.import_module(full_name)
        value = placeholder(self.__name__, name)
        setattr(self, name, value)
        return value
