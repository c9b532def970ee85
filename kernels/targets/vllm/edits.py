"""An edit is a statement that a checkout has in other lines than its base release: what its author wants to see run.

Comments, docstrings, imports, and the first lines of functions and classes are none. Where lines were only taken out,
the statement in front of them counts, or the one behind them if the first of a function are gone. Other decorators,
parameters or defaults of a function are an edit of the function, which ran if the function did. Statements of kernels
are distinguished from those of Python: they run compiled.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from harness.kernels.targets.vllm.base_release import BaseRelease
from harness.kernels.targets.vllm.sources import SourceTree
from harness.kernels.targets.vllm.syntax import is_kernel, kernel_decorators, parsed

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
    """A statement of a file, without the statements that it contains. `inner` is the name of a function that it
    defines, with the names of those that contain it."""

    node: ast.stmt
    function: str
    kernel: bool
    block: tuple[int, int]
    inner: str = ""


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
    before_module = parsed(old, file) if old.has(file) else ast.Module([], [])
    module = parsed(tree, file)
    statements, before_statements = list(statements_of(module)), list(statements_of(before_module))
    known, heads = _heads(before_module), _heads(module)
    other_heads = {name for name, head in heads.items() if name in known and known[name].words != head.words}

    def ran(line: int) -> bool:
        found = _statement_at(before_statements, line)
        return found is not None and _runs(found)

    by_statement: dict[tuple[int, int], tuple[Statement, list[int]]] = {}
    for line, gone in _changed_lines(before, tree.text(file).splitlines(), ran):
        found = _statement_at(statements, line)
        if gone and found is not None and found.inner in other_heads:
            continue
        if gone and (found is None or not _runs(found)):
            found = _behind(statements, found, line)
        if found is not None and (gone or _runs(found)):
            place = (found.node.lineno, found.node.col_offset)
            lines = by_statement.setdefault(place, (found, []))[1]
            number = max(line, found.node.lineno)
            if number not in lines:
                lines.append(number)
    edits = [
        Edit(file, statement.function, statement.node.lineno, tuple(lines), statement.kernel, statement.block)
        for statement, lines in by_statement.values()
    ]
    yield from edits
    for name in sorted(other_heads, key=lambda name: heads[name].line):
        head = heads[name]
        first = head.body[0].lineno
        yield Edit(file, name, first, (head.line,), head.kernel, (first, head.body[-1].end_lineno or 0))


class _Head(NamedTuple):
    """What a function is called with and wrapped in: its decorators, its parameters and their defaults, in `words`.
    `line` is the first of it."""

    words: tuple[str, ...]
    line: int
    body: Sequence[ast.stmt]
    kernel: bool


def _heads(module: ast.Module) -> Mapping[str, _Head]:
    """Those of all functions, by their names with those that contain them."""
    found: dict[str, _Head] = {}
    decorators = kernel_decorators(module)
    for statement in statements_of(module):
        node = statement.node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            several = (
                arguments.posonlyargs,
                arguments.args,
                [arguments.vararg],
                arguments.kwonlyargs,
                [arguments.kwarg],
            )
            words = [" ".join(one.arg for one in some if one is not None) for some in several]
            parts = (*node.decorator_list, *arguments.defaults, *arguments.kw_defaults)
            words += ["" if one is None else ast.unparse(one) for one in parts]
            line = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            found[statement.inner] = _Head(
                tuple(words), line, node.body, statement.kernel or is_kernel(node, decorators)
            )
    return found


def _statement_at(statements: Sequence[Statement], line: int) -> Statement | None:
    """The innermost statement that a line belongs to."""
    around = [one for one in statements if one.node.lineno <= line <= (one.node.end_lineno or 0)]
    return max(around, key=lambda one: (one.node.lineno, -(one.node.end_lineno or 0)), default=None)


def _behind(statements: Sequence[Statement], front: Statement | None, line: int) -> Statement | None:
    """The statement that runs behind a place where lines are gone, in the same function; where there is none any more,
    the docstring in `front` of it. None if that is no place in a function."""
    if front is None:
        return None
    head = isinstance(front.node, ast.FunctionDef | ast.AsyncFunctionDef)
    if not head and front.function == TOP:
        return None
    function = front.inner if head else front.function
    inside = [one for one in statements if one.function == function and one.node.lineno > line]
    running = [one for one in inside if _runs(one)]
    if running:
        return min(running, key=lambda one: one.node.lineno)
    return front if not head else next(iter(inside), None)


def _changed_lines(
    before: Sequence[str], after: Sequence[str], ran: Callable[[int], bool]
) -> Iterator[tuple[int, bool]]:
    """Numbers of the lines of `after` that are new or other ones, and of those in front of lines that are gone, which
    are marked. Comments and empty lines do not count, and of lines that are gone only those that `ran`."""
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for what, old_start, old_stop, start, stop in matcher.get_opcodes():
        if what == "equal":
            continue
        new = [number for number in range(start + 1, stop + 1) if _is_code(after[number - 1])]
        if new:
            yield from ((number, False) for number in new)
        elif any(_is_code(before[number - 1]) and ran(number) for number in range(old_start + 1, old_stop + 1)):
            yield max(start, 1), True


def _is_code(line: str) -> bool:
    text = line.strip()
    return bool(text) and not text.startswith("#")


def statements_of(module: ast.Module) -> Iterator[Statement]:
    """All statements of a module, outer ones first."""
    yield from _statements(module.body, TOP, "", False, kernel_decorators(module))


def _statements(
    body: Sequence[ast.stmt], function: str, scope: str, kernel: bool, decorators: frozenset[str]
) -> Iterator[Statement]:
    block = (body[0].lineno, body[-1].end_lineno or 0) if body else (0, 0)
    for node in body:
        inner = scope + node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ""
        yield Statement(node, function, kernel, block, inner)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _statements(
                node.body, inner, f"{inner}.<locals>.", kernel or is_kernel(node, decorators), decorators
            )
        elif isinstance(node, ast.ClassDef):
            yield from _statements(node.body, function, f"{scope}{node.name}.", kernel, decorators)
        else:
            for inner_body in bodies_of(node):
                yield from _statements(inner_body, function, scope, kernel, decorators)


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
