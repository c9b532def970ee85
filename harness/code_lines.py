"""A code line is a place in source code that people can open: a kernel's line, its callers, the line that launched it.

Files are named as the code under test has them (`vllm/v1/worker/mamba_utils.py`), wherever they lie on this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

_PACKAGES = ("vllm", "harness")
"""Packages whose files are named from the package on."""

_names: dict[str, str] = {}


class CodeLine(NamedTuple):
    """A line of code: `line` (from 1) of `file`, in `function`."""

    file: str
    function: str
    line: int

    @property
    def named(self) -> CodeLine:
        """The same line, with the name that its file has in the code under test."""
        return self._replace(file=source_name(self.file))

    def __str__(self) -> str:
        return f"{source_name(self.file)}:{self.line} ({self.function})"


def name_source(file: str, module: str) -> None:
    """Record that `file` of this machine holds the source of `module`, wherever the module comes from."""
    _names[file] = module.replace(".", "/") + ".py"


def source_name(file: str) -> str:
    """The name of a file of this machine in the code under test; a name without folders if it is in no package that is
    known."""
    if file in _names:
        return _names[file]
    parts = PurePath(file).parts
    if len(parts) > 1 and not PurePath(file).is_absolute() and parts[0] in _PACKAGES:
        return file  # named already
    for package in _PACKAGES:
        if package in parts[:-1]:
            first = len(parts) - 1 - parts[::-1].index(package)
            return "/".join(parts[first:])
    return PurePath(file).name


def chain_in_words(lines: Sequence[CodeLine]) -> str:
    """`vllm/v1/worker/mamba_utils.py:157 (_memcpy_u64_tiled), called from :322 (_copy_mamba_state_block)`, innermost
    first; the file of a caller is named if it is another one. Empty for no lines."""
    if not lines:
        return ""
    texts, file = [str(lines[0])], source_name(lines[0].file)
    for line in lines[1:]:
        name = source_name(line.file)
        texts.append(f"called from {'' if name == file else name}:{line.line} ({line.function})")
        file = name
    return ", ".join(texts)
