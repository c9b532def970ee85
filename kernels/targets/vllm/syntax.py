"""The syntax tree of a file of a target, from which its code is examined without running it."""

from __future__ import annotations

import ast

from harness.kernels.targets.vllm.sources import SourceTree
from harness.refusal import UnknownTarget


def parsed(tree: SourceTree, file: str) -> ast.Module:
    """The syntax tree of a file. Raises UnknownTarget if it cannot be read or is not valid Python."""
    try:
        return ast.parse(tree.text(file), filename=file)
    except (SyntaxError, ValueError) as error:
        raise UnknownTarget(f"{tree.origin}: {file} is not valid Python: {error}") from error


def kernel_decorators(module: ast.Module) -> frozenset[str]:
    """What a module calls Triton's `jit`: `triton.jit`, and other names that it gives it (`from triton import jit as
    kernel`, `kernel = triton.jit`)."""
    found = {"triton.jit"}
    for node in module.body:
        if isinstance(node, ast.ImportFrom):
            found |= {one.asname or one.name for one in node.names if one.name == "jit"}
        elif isinstance(node, ast.Assign) and ast.unparse(node.value) in found:
            found |= {ast.unparse(target) for target in node.targets}
    return frozenset(found)


def is_kernel(node: ast.FunctionDef | ast.AsyncFunctionDef, decorators: frozenset[str]) -> bool:
    """Whether a function runs compiled: it has one of the `kernel_decorators` of its module, called or not."""
    names = (one.func if isinstance(one, ast.Call) else one for one in node.decorator_list)
    return any(ast.unparse(name) in decorators for name in names)
