"""A mutation is a planted fault: a named rewrite of a target's source that makes it wrong in one known way.

Mutations prove that the harness sees what it claims to see. They are exact rewrites, made
while a module is loaded, so that no planted fault is ever part of product code. A rewrite that does not fit
exactly once is an error: a fault that was silently not planted would look like a harness that finds nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.refusal import UnknownTarget


class MutationMismatch(UnknownTarget):
    """A mutation that does not fit the sources of a target. The message is one line."""


@dataclass(frozen=True)
class Rewrite:
    """Replace the one occurrence of `pattern` inside `function` by `replacement`.

    `function` is a top-level function of the module, or a method as `Class.method`. Its text runs from the
    line of `def` to its last statement; decorators are not part of it. A replacement has the indentation of
    the pattern.
    """

    function: str
    pattern: str
    replacement: str


Alternatives = Sequence[Sequence[Rewrite]]
"""Lists of rewrites for different forms of one file. The first list whose patterns all match is applied."""


@dataclass(frozen=True)
class Mutation:
    """A planted fault. `summary` says in one sentence what is wrong with a mutated target, `operations` names the kinds
    of operations and `domains` the domains in which it can show.

    `rewrites` holds the alternatives for each file that is changed, by family of targets: first the family
    (`builtin`, `vllm`), then the file as the target names it (`fused/copy.py`,
    `vllm/v1/worker/mamba_utils.py`).
    """

    name: str
    summary: str
    rewrites: Mapping[str, Mapping[str, Alternatives]]
    operations: Sequence[str] = ("postprocess", "precopy")
    domains: Sequence[str] = ("reachable",)


def mutate(family: str, sources: Mapping[str, str], mutations: Sequence[Mutation]) -> dict[str, str]:
    """The sources of a target, by file, after all `mutations` in their order.

    Raises MutationMismatch if a mutation has nothing for this family, changes a file that is not among
    `sources`, or if none of its alternatives for a file matches exactly once everywhere.
    """
    mutated = dict(sources)
    for mutation in mutations:
        files = mutation.rewrites.get(family)
        if not files:
            raise MutationMismatch(f"mutation {mutation.name} is not defined for {family} targets")
        for file, alternatives in files.items():
            if file not in mutated:
                raise MutationMismatch(f"mutation {mutation.name} changes {file}, which this target does not have")
            mutated[file] = _first_that_fits(mutation.name, file, mutated[file], alternatives)
    return mutated


def _first_that_fits(name: str, file: str, source: str, alternatives: Alternatives) -> str:
    reasons: list[str] = []
    for rewrites in alternatives:
        try:
            result = source
            for rewrite in rewrites:
                result = apply(result, rewrite)
        except _DoesNotFit as reason:
            if str(reason) not in reasons:
                reasons.append(str(reason))
        else:
            return result
    raise MutationMismatch(f"mutation {name} does not fit {file}: {'; '.join(reasons)}")


class _DoesNotFit(Exception):
    """One rewrite of one alternative did not match exactly once."""


def apply(source: str, rewrite: Rewrite) -> str:
    """`source` after one rewrite."""
    first, last = _function_lines(source, rewrite.function)
    lines = source.splitlines(keepends=True)
    text = "".join(lines[first - 1 : last])
    matches = text.count(rewrite.pattern)
    if matches != 1:
        wanted = rewrite.pattern.strip().splitlines()[0]
        raise _DoesNotFit(f"{matches} matches in function {rewrite.function} of {wanted!r}")
    text = text.replace(rewrite.pattern, rewrite.replacement)
    return "".join([*lines[: first - 1], text, *lines[last:]])


def _function_lines(source: str, function: str) -> tuple[int, int]:
    """The first and last line (from 1, inclusive) of the function's definition."""
    body: Sequence[ast.stmt] = ast.parse(source).body
    *classes, name = function.split(".")
    for class_name in classes:
        found = [node for node in body if isinstance(node, ast.ClassDef) and node.name == class_name]
        if len(found) != 1:
            raise _DoesNotFit(f"{len(found)} classes {class_name}")
        body = found[0].body
    definitions = [
        node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    ]
    if len(definitions) != 1:
        raise _DoesNotFit(f"{len(definitions)} functions {function}")
    end = definitions[0].end_lineno
    assert end is not None  # ast.parse sets it on every statement
    return definitions[0].lineno, end
