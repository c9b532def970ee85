"""Loading turns source text into a module whose Triton kernels launch on an executor.

A target's modules are not imported in the usual way, for two reasons. Their text may have been rewritten (a
planted mutation) or come from a place that Python cannot import. And `triton.jit` must be the executor's
while their top level runs. The text has to be in a real file all the same: Triton reads a kernel's
source through `inspect`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from harness.code_lines import name_source
from harness.files import replace_file
from harness.kernels.cache_directory import cache_directory
from harness.kernels.executors.base import Executor, dispatching


def load_module(
    name: str, source: str, executor: Executor, *, path: Path | None = None, package: bool = False
) -> ModuleType:
    """Execute `source` as the module `name`, its kernels launching on `executor`, and return it.

    It replaces any module registered in `sys.modules` under `name`; modules that are already loaded keep what they
    imported. `path` is a file that holds exactly `source` and does not change while the process runs: the
    module's code then refers to it. Without it the text is written to the cache directory, under a name derived
    from its contents. `package`: it is the `__init__` of one.

    Raises the module's own exceptions; `sys.modules` is then as before.
    """
    file = path or source_file(name, source)
    name_source(str(file), name)
    code = compile(source, str(file), "exec", dont_inherit=True)
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=[] if package else None)
    if spec is None:
        raise ImportError(f"{file} is not a Python source file")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        with dispatching(executor):
            exec(code, module.__dict__)
    except BaseException:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise
    return module


def is_loaded_text(file: str) -> bool:
    """Whether `file` is one that `source_file` writes."""
    return Path(file).is_relative_to(cache_directory() / "sources")


def source_file(name: str, source: str) -> Path:
    """A file that holds `source`, named after module `name`: the same text is always the same file.

    No other process ever reads an incomplete file.
    """
    data = source.encode()
    directory = cache_directory() / "sources" / hashlib.sha256(data).hexdigest()[:24]
    file = directory / f"{name.rpartition('.')[2]}.py"
    if file.is_file() and file.read_bytes() == data:
        return file
    replace_file(file, data)
    return file
