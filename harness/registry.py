"""A registry holds objects by name: ours, and those that other packages add through entry points of one group."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from harness.suggestions import unknown


class Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


class Registry(Generic[T]):
    """Objects of class `kind`, which messages call a `noun`. Anything wrong is raised as an `error` of one line."""

    def __init__(
        self, kind: type[Any], noun: str, group: str, ours: Iterable[T], error: Callable[[str], Exception]
    ) -> None:
        self._kind, self._noun, self._group = kind, noun, group
        self._ours = tuple(ours)
        self._error = error

    @cached_property
    def table(self) -> Mapping[str, T]:
        """All objects by name, ours first. Raises if an entry point names another kind, or takes a name twice."""
        table = {one.name: one for one in self._ours}
        for place, added in added_by_others(self._group):
            if not isinstance(added, self._kind):
                raise self._error(f"entry point {place} of {self._group} is not a {self._noun}")
            if added.name in table:
                raise self._error(f"two {self._noun}s are called {added.name}")
            table[added.name] = added
        return table

    def named(self, name: str) -> T:
        """The object called `name`. Raises if there is none, and lists those that there are."""
        if name not in self.table:
            raise self._error(unknown(self._noun, [name], self.table))
        return self.table[name]


def added_by_others(group: str) -> Iterator[tuple[str, Any]]:
    """What entry points of a group name, each with its own name."""
    for entry_point in importlib.metadata.entry_points(group=group):
        yield entry_point.name, entry_point.load()


def found_at(place: str) -> Any:
    """The object that a place (`module:name`) names. It is imported only now, so that listing costs nothing."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
