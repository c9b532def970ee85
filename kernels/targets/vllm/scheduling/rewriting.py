"""A rewriting is a function of the loaded release with parts of its source replaced: another release's rule.

Fixes for bugs that later releases do not have use it where the rule is inside a larger function. The replaced text must
occur exactly once; otherwise the fix does not apply to this release.
"""

from __future__ import annotations

import functools
import sys
import textwrap
from types import FunctionType
from typing import Any

from harness.kernels.targets.vllm.bare import source_of

_SOURCE = "rewritten_source"
"""Attribute of a function made here: its source, which is not in any file."""


@functools.cache  # every engine of a process calls it again, and finding a function in its file takes milliseconds
def rewritten(function: Any, exchanges: tuple[tuple[str, str], ...]) -> Any | None:
    """`function` with each old text replaced by its new one; None if an old text does not occur exactly once.

    The function is compiled outside its class: a branch that calls `super()` must not be reached. A rewritten function
    can be rewritten again.
    """
    source = getattr(function, _SOURCE, None) or textwrap.dedent(source_of(function))
    for old, new in exchanges:
        if source.count(old) != 1:
            return None
        source = source.replace(old, new)
    space = sys.modules[function.__module__].__dict__
    local: dict[str, Any] = {}
    code = compile(source, f"<{function.__qualname__}, rewritten>", "exec")
    exec(code, space, local)
    made = local[function.__name__]
    assert isinstance(made, FunctionType)
    setattr(made, _SOURCE, source)
    return made
