"""Moved code is what a file of vLLM does not define any more but imports from another file, under the same names: a
re-export, so that callers find it where it was."""

from __future__ import annotations

import ast

from harness.kernels.targets.vllm.sources import SourceTree
from harness.kernels.targets.vllm.syntax import parsed


def moved_to(tree: SourceTree, file: str, names: frozenset[str]) -> tuple[str, ...]:
    """The files that `file` imports some of `names` from, each behind those that it imports some from itself. Raises
    UnknownTarget if one is not valid Python."""
    found: list[str] = []
    _follow(tree, file, names, found)
    return tuple(found[:-1])


def with_moved(tree: SourceTree, file: str, names: frozenset[str]) -> ast.Module:
    """The syntax tree of a file, behind those of the files that it imports some of `names` from. Raises UnknownTarget
    like `moved_to`."""
    body = [node for one in (*moved_to(tree, file, names), file) for node in parsed(tree, one).body]
    return ast.Module(body, [])


def _follow(tree: SourceTree, file: str, names: frozenset[str], found: list[str], met: tuple[str, ...] = ()) -> None:
    """Append to `found` what `moved_to` gives, and `file`. `met` are the files that lead here."""
    for node in parsed(tree, file).body:
        if not isinstance(node, ast.ImportFrom):
            continue
        other = _imported_file(node, file)
        if other in (file, *met, *found) or not tree.has(other):
            continue
        same = {one.name for one in node.names if one.asname in (None, one.name)}
        if "*" in same:
            same = {name for name in names if name in tree.text(other)}
        if not names.isdisjoint(same):
            _follow(tree, other, names, found, (*met, file))
    found.append(file)


def _imported_file(node: ast.ImportFrom, file: str) -> str:
    package = file.split("/")[: -node.level] if node.level else []
    return "/".join([*package, *(node.module or "__init__").split(".")]) + ".py"
