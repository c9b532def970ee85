"""An edit is a statement that a checkout has in other lines than its base release: what its author wants to see run.

Comments, docstrings, imports, and the first lines of functions and classes are none. Where lines were only taken out,
the statement in front of them counts. Statements of kernels are distinguished from those of Python: they run compiled.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from harness.kernels.targets.vllm.base_release import BaseRelease
from harness.kernels.targets.vllm.features import parsed
from harness.kernels.targets.vllm.sources import SourceTree

MOST_FILES = 50
"""Of a target with more changed files than this, such as a much newer release, edits are not looked at."""

TOP = "the module"
"""In place of a function, for statements that run when a module is imported."""


class Edit(msgspec.Struct, frozen=True):
    """`lines` are the edited lines of one statement of `function` (a name with those that contain it), which begins in
    line `start` of `file`. `kernel`: it is part of a kernel. `block`: the first and the last line of the statements
    that it is one of: the body of the function, of a branch or of a loop."""

    file: str
    function: str
    start: int
    lines: tuple[int, ...]
    kernel: bool = False
    block: tuple[int, int] = (0, 0)


class Statement(NamedTuple):
    """A statement of a file, without the statements that it contains."""

    node: ast.stmt
    function: str
    kernel: bool
    block: tuple[int, int]


def edits_of(tree: SourceTree, base: BaseRelease) -> tuple[Edit, ...]:
    """The edits of a target in the changed files of `base`. Raises UnknownTarget."""
    old = base.tree if base.changed else tree
    return tuple(edit for file in base.changed if tree.has(file) for edit in _edits_in(file, tree, old))


def files_to_watch(base: BaseRelease | None) -> tuple[str, ...]:
    """The changed files whose edits are looked at."""
    return base.changed if base is not None and len(base.changed) <= MOST_FILES else ()


def why_not_watched(base: BaseRelease) -> str | None:
    """Why edits are not looked at; None if they are."""
    return None if len(base.changed) <= MOST_FILES else f"{len(base.changed)} files are changed"


def _edits_in(file: str, tree: SourceTree, old: SourceTree) -> Iterator[Edit]:
    before = old.text(file).splitlines() if old.has(file) else []
    changed = set(_changed_lines(before, tree.text(file).splitlines()))
    by_statement: dict[tuple[int, int], tuple[Statement, list[int]]] = {}
    statements = list(statements_of(parsed(tree, file)))
    for line in sorted(changed):
        around = [one for one in statements if one.node.lineno <= line <= (one.node.end_lineno or 0)]
        if around:
            found = max(around, key=lambda one: (one.node.lineno, -(one.node.end_lineno or 0)))
            place = (found.node.lineno, found.node.col_offset)
            by_statement.setdefault(place, (found, []))[1].append(line)
    for statement, lines in by_statement.values():
        if _runs(statement):
            yield Edit(file, statement.function, statement.node.lineno, tuple(lines), statement.kernel, statement.block)


def _changed_lines(before: Sequence[str], after: Sequence[str]) -> Iterator[int]:
    """Numbers of the lines of `after` that are new or other ones, and of those in front of lines that are gone."""
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for what, _, _, start, stop in matcher.get_opcodes():
        if what == "delete":
            yield max(start, 1)
        elif what != "equal":
            yield from range(start + 1, stop + 1)


def statements_of(module: ast.Module) -> Iterator[Statement]:
    """All statements of a module, outer ones first."""
    yield from _statements(module.body, TOP, "", False)


def _statements(body: Sequence[ast.stmt], function: str, scope: str, kernel: bool) -> Iterator[Statement]:
    block = (body[0].lineno, body[-1].end_lineno or 0) if body else (0, 0)
    for node in body:
        yield Statement(node, function, kernel, block)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = scope + node.name
            is_kernel = kernel or any("triton.jit" in ast.unparse(decorator) for decorator in node.decorator_list)
            yield from _statements(node.body, inner, f"{inner}.<locals>.", is_kernel)
        elif isinstance(node, ast.ClassDef):
            yield from _statements(node.body, function, f"{scope}{node.name}.", kernel)
        else:
            for inner_body in bodies_of(node):
                yield from _statements(inner_body, function, scope, kernel)


def bodies_of(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The lists of statements that a statement contains."""
    for name in ("body", "orelse", "finalbody"):
        inner = getattr(node, name, None)
        if isinstance(inner, list):
            yield inner
    for handler in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield handler.body


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_DECLARATIONS = (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)


def _runs(statement: Statement) -> bool:
    """Whether the statement is one that runs. One of a kernel may be decided while it is compiled, as a condition on a
    constant is: it counts too, since it decides what is compiled."""
    node = statement.node
    constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return not constant and not isinstance(node, _DEFINITIONS + _DECLARATIONS)
