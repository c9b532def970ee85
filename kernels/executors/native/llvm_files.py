"""LLVM files are the parts of the runtime as text, in `llvm/`: what does not depend on the kernel.

`$NAME$` in them is replaced by a number. A line that begins with `;record ` or `;undefined ` is code where accesses are
recorded or undefined values are followed, and a comment elsewhere; one that begins with `;;` is a comment for readers.
"""

from __future__ import annotations

import functools
from importlib import resources


@functools.cache
def llvm_text(name: str) -> str:
    """The file `name`, without the comments for readers."""
    file = resources.files(__package__) / "llvm" / f"{name}.ll"
    text = file.read_text(encoding="utf-8")
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(";;"))
