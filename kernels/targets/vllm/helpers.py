"""A helper is a file with functions that an author has moved out of the files under test, or that their kernels call.

Releases have none: what they do not define in a file under test is stubbed. A checkout may put a function into a file
of its own, and that changes nothing. So a file of a checkout is under test, too, if a file under test imports a
function from it that Triton compiles, or, where no release has the file, one that a release defines in a file under
test.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence

from harness.kernels.targets.releases import listed
from harness.kernels.targets.vllm.known_releases import RELEASES
from harness.kernels.targets.vllm.moved import imported_file
from harness.kernels.targets.vllm.sources import VLLM, VLLM_WHOLE, SourceTree, cached_tree
from harness.kernels.targets.vllm.syntax import parsed


def with_helpers(tree: SourceTree, files: Sequence[str]) -> tuple[str, ...]:
    """`files`, and in front of each the helpers that it imports from and that are not among them. Raises UnknownTarget
    if one is not valid Python."""
    if tree.stable:
        return tuple(files)
    found: list[str] = []
    for file in files:
        _follow(tree, file, frozenset(files), found)
    return tuple(found)


def _follow(tree: SourceTree, file: str, files: frozenset[str], found: list[str], met: tuple[str, ...] = ()) -> None:
    """Append to `found` the helpers of a file, and the file. `met` are the files that lead here."""
    for other, names in _imports(tree, file):
        if other in files or other in (file, *met, *found) or not tree.has(other):
            continue
        if names & _functions(tree, other, files):
            _follow(tree, other, files, found, (*met, file))
    found.append(file)


def _imports(tree: SourceTree, file: str) -> Iterator[tuple[str, set[str]]]:
    """The files of vLLM that a file imports names from, wherever it does, and these names."""
    for node in ast.walk(parsed(tree, file)):
        if isinstance(node, ast.ImportFrom):
            yield imported_file(node, file), {one.name for one in node.names}


def _functions(tree: SourceTree, file: str, files: frozenset[str]) -> set[str]:
    """The functions of a file that Triton compiles, and, of a new file, those that a release defines in `files`."""
    defined = [node for node in parsed(tree, file).body if isinstance(node, ast.FunctionDef)]
    found = {node.name for node in defined if any(map(_is_jit, node.decorator_list))}
    if not _is_in_a_release(file):
        found.update(node.name for node in defined if _is_of_a_release(node.name, files))
    return found


def _is_jit(decorator: ast.expr) -> bool:
    """Whether `jit` is the last name of a decorator."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2] == "jit"


def _is_in_a_release(file: str) -> bool:
    """Whether a release that is here has a file of this name."""
    manifests = (listed(package, version) for version in RELEASES for package in (VLLM, VLLM_WHOLE))
    return any(file in manifest.files for manifest in manifests if manifest is not None)


def _is_of_a_release(name: str, files: frozenset[str]) -> bool:
    """Whether a release that is here defines a function of this name in one of the files."""
    known = filter(None, map(_tree, reversed(RELEASES)))
    wanted = re.compile(rf"^def {re.escape(name)}\(", re.MULTILINE)
    return any(wanted.search(tree.text(file)) for tree in known for file in files if tree.has(file))


@functools.cache
def _tree(version: str) -> SourceTree | None:
    return cached_tree(version)
