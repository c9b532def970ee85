"""LLVM files are the parts of the runtime as text, in `llvm/`: what does not depend on the kernel.

`$NAME$` in them is replaced by a number. A line that begins with `;record ` or `;undefined ` is code where accesses are
recorded or undefined values are followed, and a comment elsewhere; one that begins with `;;` is a comment for readers.
"""

from __future__ import annotations

from importlib import resources

_NAMES = (
    "header",
    "fault",
    "run",
    "run_interleaved",
    "coroutine_begin",
    "coroutines",
    "gate",
    "check",
    "no_check",
    "move",
    "record",
    "record_all",
    "record_owned",
    "shadows",
)


def _read(name: str) -> str:
    text = (resources.files(__package__) / "llvm" / f"{name}.ll").read_text(encoding="utf-8")
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(";;"))


# Read at once: a file that is missing is no mistake of the kernel that would have needed it.
_TEXTS = {name: _read(name) for name in _NAMES}


def llvm_text(name: str) -> str:
    """The file `name`, without the comments for readers."""
    return _TEXTS[name]
