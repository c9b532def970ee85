"""Permanent links: lines of a release's sources on the web, from places that a finding names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.version import InvalidVersion, Version

from harness.export.literals import plain
from harness.kernels.targets.vllm.sources import HOST, HYBRID, LAYERS, MANAGERS, MATH, SCHEDULER, WORKER, SourceTree

REPOSITORY = "https://github.com/vllm-project/vllm"

_PLACE = re.compile(r"([\w./-]+\.py)(?: line |:)(\d+)(?:, in ([\w.<>]+))?")
_FRAME = re.compile(r'File "([\w./-]+\.py)", line (\d+), in (\w+)')

USUAL = (WORKER, LAYERS, HYBRID, MATH, SCHEDULER, MANAGERS, HOST)
"""Files to look in for a place of which only the last part of the path is known."""


class Sources:
    """The sources of a release: texts of its files, and links to their lines."""

    def __init__(self, version: str, tree: SourceTree) -> None:
        self._version, self._tree = version, tree
        self._parsed: dict[str, ast.Module] = {}

    def link(self, file: str, line: int, words: str) -> str:
        """A link to a line, in Markdown. `words` are of the sources, not of a repro file."""
        return f"[{words}]({REPOSITORY}/blob/v{self._version}/{file}#L{line})"

    def places(self, texts: Sequence[str]) -> Iterator[str]:
        """Links to the places that texts of a finding name, each once, as far as they are there."""
        seen = set()
        for text in texts:
            for match in (*_PLACE.finditer(text), *_FRAME.finditer(text)):
                name, line, function = match[1], int(match[2]), match[3]
                file = self._file(name, line, function)
                if file is not None and (file, line) not in seen:
                    seen.add((file, line))
                    inside = self.function_at(file, line)
                    yield self.link(file, line, f"{file}:{line}" + (f", in {inside}" if inside else ""))

    def definition(self, file: str, name: str) -> str | None:
        """A link to the line that defines a function or method, `f` or `Class.method`; None if there is none."""
        scope: ast.Module | ast.ClassDef | None = self._tree_of(file)
        *classes, last = name.split(".")
        for one in classes:
            body = scope.body if scope is not None else []
            scope = next((node for node in body if isinstance(node, ast.ClassDef) and node.name == one), None)
        for node in scope.body if scope is not None else []:
            if isinstance(node, ast.FunctionDef) and node.name == last:
                return self.link(file, node.lineno, name)
        return None

    def method(self, file: str, name: str) -> str | None:
        """The same for a function or a method of whatever class."""
        tree = self._tree_of(file)
        if tree is None:
            return None
        found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
        return self.link(file, found[0].lineno, name) if found else None

    def function_at(self, file: str, line: int) -> str:
        """The innermost function around a line; empty if there is none."""
        tree = self._tree_of(file)
        around = [
            node
            for node in (ast.walk(tree) if tree is not None else ())
            if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
        ]
        return max(around, key=lambda node: node.lineno).name if around else ""

    def _file(self, name: str, line: int, function: str | None) -> str | None:
        """The file of the release that a place is in; None if it is not clear."""
        whole = name if name.startswith("vllm/") else None
        if whole is not None:
            return whole if self._tree_of(whole) is not None else None
        for file in USUAL:
            if not file.endswith(f"/{name}") or self._tree_of(file) is None:
                continue
            inside = self.function_at(file, line)
            if inside and function in (None, inside):
                return file
        return None

    def _tree_of(self, file: str) -> ast.Module | None:
        if file not in self._parsed:
            path = Path(file)
            if path.is_absolute() or ".." in path.parts or not self._tree.has(file):
                return None
            self._parsed[file] = ast.parse(self._tree.text(file))
        return self._parsed[file]


def version_of(target: str) -> str | None:
    """The release that a target is, with or without planted faults; None for any other."""
    name = target.partition("+")[0]
    if not name.startswith("vllm=="):
        return None
    version = name.removeprefix("vllm==")
    try:
        Version(version)
    except InvalidVersion:
        return None
    return version if plain(version) == version else None
