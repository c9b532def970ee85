"""A helper is a file of a checkout that files under test import from, and that no release has; or one that has, by now,
functions that their kernels call.

What a release does not define in a file under test is stubbed. An author may put code into a file of its own, and that
changes nothing: so such a file is under test, too.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Sequence

from harness.kernels.targets.releases import listed
from harness.kernels.targets.vllm.known_releases import RELEASES
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
    """Whether files under test may do without a helper that does not load on stubs: it has no kernel. A checkout that
    is newer than all releases has new files that the code under test only mentions."""
    return not tree.stable and _is_new(file) and not _kernels(tree, file)


def _follow(tree: SourceTree, file: str, files: frozenset[str], found: list[str], met: tuple[str, ...] = ()) -> None:
    """Append to `found` the helpers of a file, and the file. `met` are the files that lead here."""
    for other, names in _imports(tree, file):
        if other in files or other in (file, *met, *found):
            continue
        kernels = set() if _is_new(other) else _kernels(tree, other)
        if _is_new(other) or names & kernels or (ALL in names and kernels):
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


@functools.cache
def _is_new(file: str) -> bool:
    """Whether no release that is here has a file of this name. Not known, and so not the case, where none of them is
    here with the files of that folder."""
    covering = [package for package in (VLLM, VLLM_WHOLE) if file.startswith(package.kept)]
    manifests = [listed(package, version) for package in covering for version in RELEASES]
    known = [manifest.files for manifest in manifests if manifest is not None]
    return bool(known) and not any(file in files for files in known)
