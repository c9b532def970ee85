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
