"""Importing: in this process `vllm` means the few modules under test and stubs for everything around them.

A finder before Python's own handles every name under `vllm`. Modules under test come from the target's
sources, rewritten if a fault is planted, and are executed by `load_module`, so that their kernels belong to the
executor. All others are stubbed (replacements.py, placeholders.py): vLLM's dependencies need not be installed, and
no GPU is needed. One process serves one target, so the finder is installed once and stays.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Container, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.kernels.executors.base import Executor
from harness.kernels.targets.loading import load_module
from harness.kernels.targets.vllm.placeholders import NotReplaced, PlaceholderModule
from harness.refusal import UnknownTarget
from harness.text import one_line


def module_name(file: str) -> str:
    """`vllm/v1/utils.py` -> `vllm.v1.utils`, `vllm/v1/__init__.py` -> `vllm.v1`."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def is_package(file: str) -> bool:
    """Whether a file is the `__init__` of a package."""
    return file.endswith("/__init__.py")


class _SourceLoader(Loader):
    """Loads one module under test."""

    def __init__(self, source: str, executor: Executor, path: Path | None, package: bool) -> None:
        self._source, self._executor, self._path, self.package = source, executor, path, package

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return load_module(spec.name, self._source, self._executor, path=self._path, package=self.package)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: load_module has executed it."""


class _StubLoader(Loader):
    """Makes one stub module."""

    def __init__(self, names: Mapping[str, Any], known: Container[str]) -> None:
        self._names, self._known = names, known

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return PlaceholderModule(spec.name, dict(self._names), self._known)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the module is complete."""


class Finder(MetaPathFinder):
    """Finds `vllm` and everything under it.

    `sources` are the texts of the modules under test by file, `paths` those files on disk that hold exactly this
    text and do not change, `stubbed` the replacements by module.
    """

    def __init__(
        self,
        sources: Mapping[str, str],
        paths: Mapping[str, Path],
        stubbed: Mapping[str, Mapping[str, Any]],
        executor: Executor,
    ) -> None:
        self._loaders: dict[str, Loader] = {}
        for name, names in stubbed.items():
            self._loaders[name] = _StubLoader(names, self._loaders.keys())
        for file, source in sources.items():
            self._loaders[module_name(file)] = _SourceLoader(source, executor, paths.get(file), is_package(file))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "vllm" and not fullname.startswith("vllm."):
            return None
        loader = self._loaders.get(fullname) or _StubLoader({}, self._loaders.keys())
        return ModuleSpec(fullname, loader, is_package=not isinstance(loader, _SourceLoader) or loader.package)

    def stub(self, file: str) -> None:
        """Do without a file under test."""
        self._loaders[module_name(file)] = _StubLoader({}, self._loaders.keys())


def install(finder: Finder) -> None:
    """Let `finder` handle imports from now on. Raises RuntimeError if another vLLM is already in this process."""
    if any(name == "vllm" or name.startswith("vllm.") for name in sys.modules):
        raise RuntimeError("this process has already loaded a vLLM; one process serves one target")
    sys.meta_path.insert(0, finder)


def uninstall(finder: Finder) -> None:
    """Undo `install`, for a target that does not load: the process is free for another."""
    sys.meta_path.remove(finder)
    for name in [name for name in sys.modules if name == "vllm" or name.startswith("vllm.")]:
        del sys.modules[name]


def set_aside() -> None:
    """Release the name `vllm`: a loaded target keeps working, and the whole package can be imported next to it."""
    for finder in [finder for finder in sys.meta_path if isinstance(finder, Finder)]:
        uninstall(finder)


def import_under_test(origin: str, file: str) -> ModuleType:
    """Import a module under test. Raises UnknownTarget if it does not load on the stubs."""
    try:
        return importlib.import_module(module_name(file))
    except NotReplaced as error:
        raise UnknownTarget(f"{origin}: {file} does not load: {error}") from error
    except (Exception, SystemExit) as error:  # whatever it raises: it is the code under test
        reason = ": ".join(filter(None, (type(error).__name__, one_line(error))))
        raise UnknownTarget(f"{origin}: {file} does not load: {reason}") from error
