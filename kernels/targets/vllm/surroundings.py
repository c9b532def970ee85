"""Surroundings are what the modules under test import from the rest of vLLM: stubs, or the package itself.

A release or a checkout is a folder of sources without its dependencies, so its surroundings are stubbed
(importing.py). Where vLLM is installed together with its dependencies, it is used unmodified: everything is imported in
the usual way, and only the modules under test are executed once more, so that their kernels belong to the executor.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

from harness.kernels.executors.base import Executor
from harness.kernels.targets.loading import load_module
from harness.kernels.targets.vllm import specs
from harness.kernels.targets.vllm.helpers import may_be_stubbed
from harness.kernels.targets.vllm.importing import (
    Finder,
    import_under_test,
    install,
    is_package,
    module_name,
    uninstall,
)
from harness.kernels.targets.vllm.replacements import ENVS, replacements
from harness.kernels.targets.vllm.sources import SourceTree
from harness.refusal import UnknownTarget

_INTERFACE = "vllm.v1.kv_cache_interface"

SurroundingsName = Literal["stubs", "package"]


@dataclass(frozen=True)
class Surroundings:
    """`modules` are those under test by file, `environment` holds vLLM's settings, `interface` its cache specs."""

    name: SurroundingsName
    modules: Mapping[str, ModuleType]
    environment: ModuleType
    interface: Any


class _Unimportable(Exception):
    """The package cannot be imported here; the message says why."""


def surround(tree: SourceTree, files: Sequence[str], sources: Mapping[str, str], executor: Executor) -> Surroundings:
    """Load `files`, whose texts are `sources`, into this process.

    Raises UnknownTarget if they do not load, RuntimeError if this process has loaded a vLLM already.
    """
    if any(name == "vllm" or name.startswith("vllm.") for name in sys.modules):
        raise RuntimeError("this process has already loaded a vLLM; one process serves one target")
    if tree.installed:
        try:
            return _package(tree, files, sources, executor)
        except _Unimportable as reason:
            _forget()
            warnings.warn(f"{tree.origin} is tested on stubs for the rest of it: {reason}", stacklevel=2)
    return _stubs(tree, files, sources, executor)


def _stubs(tree: SourceTree, files: Sequence[str], sources: Mapping[str, str], executor: Executor) -> Surroundings:
    paths = {file: tree.path(file) for file in sources if tree.stable and sources[file] == tree.text(file)}
    finder = Finder(sources, paths, replacements(), executor)
    install(finder)
    try:
        modules = _import_all(tree, files, finder)
    except BaseException:
        uninstall(finder)
        raise
    return Surroundings("stubs", modules, importlib.import_module(ENVS), specs)


def _import_all(tree: SourceTree, files: Sequence[str], finder: Finder) -> dict[str, ModuleType]:
    """Import files under test, as the code of releases does: what they import from helpers comes when they ask for it.
    If that does not load, those that may be stubbed are tried alone, and stubbed if they do not load."""
    optional = [file for file in files if may_be_stubbed(tree, file)]
    others = [file for file in files if file not in optional]
    try:
        return {file: import_under_test(tree.origin, file) for file in (*others, *optional)}
    except UnknownTarget:
        if not optional:
            raise
    loaded: dict[str, ModuleType] = {}
    for file in optional:
        try:
            loaded[file] = import_under_test(tree.origin, file)
        except UnknownTarget as reason:
            warnings.warn(f"{reason}. It is stubbed, and what the checkout has added there is not tested", stacklevel=2)
            finder.stub(file)
    return {**{file: import_under_test(tree.origin, file) for file in others}, **loaded}


def _package(tree: SourceTree, files: Sequence[str], sources: Mapping[str, str], executor: Executor) -> Surroundings:
    if executor.device.type == "cpu":
        # Without a driver vLLM turns its kernels into plain functions, unless it is configured to use no GPU.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for file in files:
            _import(module_name(file))
    if not importlib.import_module("vllm.triton_utils").HAS_TRITON:
        raise _Unimportable("it found no Triton that it would use on this machine")
    modules = {}
    for file in files:  # later ones import from earlier ones
        try:
            modules[file] = load_module(module_name(file), sources[file], executor, package=is_package(file))
        except Exception as error:
            raise UnknownTarget(f"{tree.origin}: {file} does not load: {_message(error)}") from error
    return Surroundings("package", modules, importlib.import_module(ENVS), importlib.import_module(_INTERFACE))


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception as error:  # any error of an import means here that something is missing
        raise _Unimportable(f"{name} does not import: {_message(error)}") from error


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _forget() -> None:
    for name in [name for name in sys.modules if name == "vllm" or name.startswith("vllm.")]:
        del sys.modules[name]
