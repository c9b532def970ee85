"""The source of a release's functions, read from its files: a rule that cannot be called is recognised by its words.

Nothing is imported, so a release can be read that this process has not loaded: the base release of a checkout.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.kernels.targets.vllm.python_text import NotPythonText, python_text
from harness.refusal import UnknownTarget


@dataclass(frozen=True)
class ReleaseSource:
    """`directory` contains `vllm/`; `origin` names the release in messages."""

    directory: Path
    origin: str

    def has(self, module: str, name: str) -> bool:
        """Whether a module defines a class, a function or a `Class.method`."""
        return name in _definitions(self.directory, module)

    def names(self, module: str) -> Sequence[str]:
        """All that a module defines; nothing if its file cannot be read."""
        return list(_definitions(self.directory, module))

    def text(self, module: str, name: str) -> str:
        """The source text of a function or a `Class.method`. Raises UnknownTarget if there is none."""
        segment, _ = self._definition(module, name)
        return segment

    def parameters(self, module: str, name: str) -> frozenset[str]:
        """Names of the parameters of a function or a `Class.method`. Raises UnknownTarget if there is none."""
        _, parameters = self._definition(module, name)
        return parameters

    def _definition(self, module: str, name: str) -> tuple[str, frozenset[str]]:
        try:
            return _definitions(self.directory, module)[name]
        except KeyError:
            raise UnknownTarget(f"{self.origin} has no {name} in {file_of(module)}") from None


def file_of(module: str) -> str:
    """The file of a module of vLLM that is not a package, as `vllm/...`."""
    return module.replace(".", "/") + ".py"


@functools.lru_cache(maxsize=32)
def _definitions(directory: Path, module: str) -> Mapping[str, tuple[str, frozenset[str]]]:
    """What a module defines, by name: source text and parameters, which a class has none of. Nothing if its file cannot
    be read."""
    try:
        text = python_text(directory / file_of(module))
        body = ast.parse(text).body
    except (OSError, NotPythonText, ValueError, SyntaxError):
        return {}
    lines = text.splitlines(keepends=True)
    found: dict[str, tuple[str, frozenset[str]]] = {}

    def add(prefix: str, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            if isinstance(node, ast.FunctionDef):
                arguments = node.args
                every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
                segment = "".join(lines[node.lineno - 1 : node.end_lineno])
                found[prefix + node.name] = (segment, frozenset(one.arg for one in every))
            elif isinstance(node, ast.ClassDef) and not prefix:
                found[node.name] = ("".join(lines[node.lineno - 1 : node.end_lineno]), frozenset())
                add(f"{node.name}.", node.body)

    add("", body)
    return found
