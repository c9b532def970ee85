"""Composing makes one Python file of some modules of a folder, and of those of the folder that they import."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Sequence
from graphlib import TopologicalSorter
from typing import NamedTuple

_DIRECTIVES = re.compile(r"  # (?:type: ignore|noqa)\b.*$")
"""Remarks to the checkers of this project."""


class _Part(NamedTuple):
    """A module in pieces: what it needs of the folder, its other imports, and the code after its imports."""

    name: str
    needs: frozenset[str]
    imports: tuple[tuple[str | None, str], ...]
    """Module (None: `import name`) and name."""
    code: str


def compose(folder: str, names: Sequence[str], data: dict[str, str]) -> str:
    """Imports, then the code of modules `names` of the package `folder` and of all that they import from it, each after
    what it imports. `data` is code to put after modules, by their names."""
    parts: dict[str, _Part] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in parts:
            parts[name] = _read(folder, name)
            waiting += sorted(parts[name].needs)
    graph = {name: sorted(part.needs) for name, part in sorted(parts.items())}
    order = list(TopologicalSorter(graph).static_order())
    imported = {one for part in parts.values() for one in part.imports}
    plain = sorted(f"import {name}" for module, name in imported if module is None)
    modules = sorted({module for module, _ in imported if module is not None})
    named = [f"from {one} import {', '.join(sorted(n for m, n in imported if m == one))}" for one in modules]
    pieces = ["from __future__ import annotations\n\n" + "\n".join([*plain, *named]) + "\n"]
    for name in order:
        pieces.append(parts[name].code)
        if name in data:
            pieces.append(data[name])
    return "\n\n".join(piece.strip("\n") + "\n" for piece in pieces)


def _read(folder: str, name: str) -> _Part:
    source = inspect.getsource(importlib.import_module(f"{folder}.{name}"))
    lines = [_DIRECTIVES.sub("", line) for line in source.splitlines()]
    tree = ast.parse(source)
    needs: set[str] = set()
    imports: list[tuple[str | None, str]] = []
    first = 0
    for node in tree.body:
        docstring = node is tree.body[0] and isinstance(node, ast.Expr)
        if not docstring and not isinstance(node, ast.Import | ast.ImportFrom):
            break
        first = node.end_lineno or first
        if isinstance(node, ast.Import):
            imports += [(None, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module != "__future__":
            if node.module.startswith(f"{folder}."):
                needs.add(node.module.removeprefix(f"{folder}."))
            else:
                imports += [(node.module, alias.name) for alias in node.names]
    return _Part(name, frozenset(needs), tuple(imports), "\n".join(lines[first:]))
