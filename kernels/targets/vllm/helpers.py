"""A helper is a file of a checkout from which files under test import what no release has in it: a new file, or a
function that was added to one. A file that has kernels by now which they call is one, too.

What a release does not define in a file under test is stubbed. An author may put code into another file, and that
changes nothing: so such a file is under test, too.
"""

from __future__ import annotations

import ast
import contextlib
import functools
from collections.abc import Iterator, Sequence

from harness.kernels.targets.releases import Package, kept_file, listed
from harness.kernels.targets.vllm.importing import module_name
from harness.kernels.targets.vllm.known_releases import RELEASES
from harness.kernels.targets.vllm.python_text import NotPythonText, python_text
from harness.kernels.targets.vllm.replacements import replacements
from harness.kernels.targets.vllm.sources import VLLM, VLLM_WHOLE, SourceTree
from harness.kernels.targets.vllm.syntax import is_kernel, kernel_decorators, parsed

ALL = "*"


def with_helpers(tree: SourceTree, files: Sequence[str]) -> tuple[str, ...]:
    """`files`, and in front of each the helpers that it imports and that are not among them. Raises UnknownTarget if
    one is not valid Python."""
    if tree.stable:
        return tuple(files)
    found: list[str] = []
    for file in files:
        _follow(tree, file, frozenset(files), found)
    return tuple(found)


def may_be_stubbed(tree: SourceTree, file: str) -> bool:
    """Whether files under test may do without a helper that does not load on stubs: it has no new kernel. A checkout
    that is newer than all releases has new code that the code under test only mentions."""
    if tree.stable:
        return False
    kernels = _kernels(tree, file)
    if _is_new(file):
        return not kernels
    added = _added(tree, file)
    return bool(added) and not kernels & added


def _follow(tree: SourceTree, file: str, files: frozenset[str], found: list[str], met: tuple[str, ...] = ()) -> None:
    """Append to `found` the helpers of a file, and the file. `met` are the files that lead here."""
    for other, names in _imports(tree, file):
        if other in files or other in (file, *met, *found):
            continue
        ours = set() if _is_new(other) else _kernels(tree, other) | _added(tree, other)
        if _is_new(other) or names & ours or (ALL in names and ours):
            _follow(tree, other, files, found, (*met, file))
    found.append(file)


def _imports(tree: SourceTree, file: str) -> Iterator[tuple[str, set[str]]]:
    """The files of vLLM that a file imports, wherever it does, and the names that it takes from them."""
    for node in ast.walk(parsed(tree, file)):
        if isinstance(node, ast.ImportFrom):
            folder = file.split("/")[: -node.level] if node.level else []
            where = "/".join([*folder, *filter(None, (node.module or "").split("."))])
            names = {one.name for one in node.names}
            modules = {where: names, **{f"{where}/{name}": set[str]() for name in names}}
        elif isinstance(node, ast.Import):
            modules = {one.name.replace(".", "/"): set[str]() for one in node.names}
        else:
            continue
        for module, taken in modules.items():
            for other in (f"{module}.py", f"{module}/__init__.py"):
                if other.startswith("vllm/") and tree.has(other):
                    yield other, taken


def _kernels(tree: SourceTree, file: str) -> set[str]:
    """The functions of a file that Triton compiles."""
    module = parsed(tree, file)
    decorators = kernel_decorators(module)
    return {node.name for node in module.body if isinstance(node, ast.FunctionDef) and is_kernel(node, decorators)}


def _added(tree: SourceTree, file: str) -> set[str]:
    """The functions of a file that no release defines in it; none where no release is here with that file. None of a
    file that is replaced, either: the code under test needs the replacement."""
    known = _functions_of_releases(file)
    if known is None or module_name(file) in replacements():
        return set()
    return _functions(parsed(tree, file)) - known


def _functions(module: ast.Module) -> set[str]:
    return {node.name for node in module.body if isinstance(node, ast.FunctionDef)}


@functools.cache
def _functions_of_releases(file: str) -> set[str] | None:
    """The functions that a file has in any of the releases that are here; None if none of them has it."""
    places = (kept_file(package, version, file) for package in _covering(file) for version in RELEASES)
    found: set[str] | None = None
    for place in places:
        if place is not None:
            # A copy that is damaged is found, and mended, where the release is used.
            with contextlib.suppress(OSError, NotPythonText, SyntaxError):
                found = (found or set()) | _functions(ast.parse(python_text(place)))
    return found


def _covering(file: str) -> list[Package]:
    """The forms in which releases are kept that have the files of that folder."""
    return [package for package in (VLLM, VLLM_WHOLE) if file.startswith(package.kept)]


@functools.cache
def _is_new(file: str) -> bool:
    """Whether no release that is here has a file of this name. Not known, and so not the case, where none of them is
    here with the files of that folder."""
    manifests = [listed(package, version) for package in _covering(file) for version in RELEASES]
    known = [manifest.files for manifest in manifests if manifest is not None]
    return bool(known) and not any(file in files for files in known)
