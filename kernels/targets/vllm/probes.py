"""A probe records that an edited statement of Python ran. It is planted in the function that contains the statement.

The function gets the code of the same source with one call more in front of each edited statement; nothing else of it
changes, and no other function is touched. So a process that runs no edit pays nothing.
"""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.kernels.targets.vllm.edits import TOP, Edit, bodies_of
from harness.kernels.targets.vllm.importing import module_name
from harness.kernels.targets.vllm.python_text import python_text
from harness.kernels.targets.vllm.sources import SourceTree

_NAME = "_harness_edit_ran"
"""The global of a module that a probe calls."""


class Probes:
    """The probes of one process. `tree` is the target's sources, `edits` are those that are watched."""

    def __init__(self, tree: SourceTree, edits: Iterable[Edit]) -> None:
        self._tree = tree
        self._edits = [edit for edit in edits if not edit.kernel]
        self._waiting = {edit.file for edit in self._edits}
        self._imported: set[str] = set()
        self._ran: set[tuple[str, int]] = set()

    def plant(self) -> bool:
        """Plant those of modules that have been imported since the last call, and say whether there are any. Quick if
        there are none."""
        imported = [file for file in self._waiting if module_name(file) in sys.modules]
        for file in imported:
            self._waiting.remove(file)
            self._plant_in(file, sys.modules[module_name(file)])
        return bool(imported)

    def ran(self) -> list[Edit]:
        """The edits of Python code that have run."""
        return [
            edit
            for edit in self._edits
            if (edit.file in self._imported if edit.function == TOP else (edit.file, edit.start) in self._ran)
        ]

    @contextmanager
    def apart(self) -> Iterator[None]:
        """While this lasts, `ran` has only what runs meanwhile, and modules that were imported. Afterwards it has that
        and all that had run before."""
        before = set(self._ran)
        self._ran.clear()
        try:
            yield
        finally:
            self._ran |= before

    def _plant_in(self, file: str, module: types.ModuleType) -> None:
        name = vars(module).get("__file__")
        if name is None:  # a stub
            return
        text = python_text(Path(name))
        if text != self._tree.text(file):  # planted faults: lines are other ones
            return
        self._imported.add(file)
        lines = {edit.start for edit in self._edits if edit.file == file and edit.function != TOP}
        source = ast.parse(text, filename=name)
        _insert(source.body, lines, inside=False)
        new = {(code.co_qualname, code.co_firstlineno): code for code in _codes(compile(source, name, "exec"))}
        setattr(module, _NAME, self._recorder(file))
        wanted = {edit.function for edit in self._edits if edit.file == file}
        for function in _functions(module):
            code = function.__code__
            other = new.get((code.co_qualname, code.co_firstlineno))
            inner = f"{code.co_qualname}.<locals>."
            is_wanted = any(name == code.co_qualname or name.startswith(inner) for name in wanted)
            if other is not None and is_wanted and other.co_freevars == code.co_freevars:
                function.__code__ = other

    def _recorder(self, file: str) -> Callable[[int], None]:
        ran = self._ran
        return lambda line: ran.add((file, line))


def _insert(body: list[ast.stmt], lines: set[int], *, inside: bool) -> None:
    """Insert a call in front of each statement of functions that begins in one of `lines`."""
    for index in range(len(body) - 1, -1, -1):
        node = body[index]
        within = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in bodies_of(node):
            _insert(inner, lines, inside=within)
        if inside and node.lineno in lines and not isinstance(node, ast.Global | ast.Nonlocal):
            call = ast.Call(ast.Name(_NAME, ast.Load()), [ast.Constant(node.lineno)], [])
            probe = ast.copy_location(ast.Expr(call), node)
            body.insert(index, ast.fix_missing_locations(probe))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and all that it contains."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _functions(module: types.ModuleType) -> Iterator[types.FunctionType]:
    """The functions of a module and of its classes, also behind decorators."""
    seen: set[int] = set()
    waiting: list[Any] = list(vars(module).values())
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, types.FunctionType):
            if found.__code__.co_filename == module.__file__:
                yield found
            waiting += [cell.cell_contents for cell in found.__closure__ or () if _is_filled(cell)]
            waiting += [found.__dict__["__wrapped__"]] if "__wrapped__" in found.__dict__ else []
        elif isinstance(found, type):
            if found.__module__ == module.__name__:
                waiting += vars(found).values()
        elif isinstance(found, property):
            waiting += [found.fget, found.fset, found.fdel]
        elif isinstance(found, staticmethod | classmethod):
            waiting.append(found.__func__)
        elif type(found).__module__ == "functools":
            waiting += [getattr(found, "func", None), getattr(found, "__wrapped__", None)]


def _is_filled(cell: types.CellType) -> bool:
    try:
        return isinstance(cell.cell_contents, types.FunctionType)
    except ValueError:  # nothing was assigned to the name yet
        return False
