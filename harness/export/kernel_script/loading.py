"""The vLLM under test: the installed one, or sources in a folder with stubs for what its files import.

Without a GPU the installed one is such a folder, too: imported as a whole it makes plain functions of its kernels
there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import importlib.machinery
import importlib.util
import logging
import os
import sys
import types
from pathlib import Path
from typing import Any

from harness.export.kernel_script.host_buffer import HostBuffer

WORKER = "vllm.v1.worker.mamba_utils"
LAYERS = "vllm.model_executor.layers.mamba.mamba_utils"
HYBRID = "vllm.v1.worker.gpu.model_states.mamba_hybrid"
BATCH = "vllm.v1.worker.gpu.input_batch"
UNDER_TEST = ("vllm.utils.math_utils", LAYERS, WORKER, HYBRID)
"""The only files of the folder that run: everything else is a stub."""


class CannotRun(Exception):
    """This machine, or this vLLM, cannot run the case. The message says why."""


class Vllm:
    """The modules of one vLLM. `interface` has the classes of cache specs."""

    def __init__(self, directory: str | None, conv_layout: str, whole: bool) -> None:
        os.environ["VLLM_SSM_CONV_STATE_LAYOUT"] = conv_layout
        if directory is None and not whole:
            directory = _installed()
        self.directory = directory
        if directory is not None:
            _load_from(Path(directory))
        try:
            self.worker: Any = importlib.import_module(WORKER)
            self.layers: Any = importlib.import_module(LAYERS)
            self.interface: Any = importlib.import_module("vllm.v1.kv_cache_interface")
        except ImportError as error:
            raise CannotRun(f"vllm cannot be imported ({error}): name its sources with --vllm") from error
        self._set_conv_layout(conv_layout)
        if not hasattr(self.worker, "MambaSpecDecodeGPUContext"):
            raise CannotRun("this vLLM has no MambaSpecDecodeGPUContext: its kernels came with 0.22.0")

    def _set_conv_layout(self, conv_layout: str) -> None:
        """SD or DS is one setting of the whole process, which vLLM reads once: another case may have had the other."""
        importlib.import_module("vllm.envs").__dict__["VLLM_SSM_CONV_STATE_LAYOUT"] = conv_layout
        for value in vars(self.layers).values():
            if isinstance(value, functools._lru_cache_wrapper):
                value.cache_clear()

    def source(self, module: str) -> str:
        """The text of a module's file, without importing it."""
        if self.directory is not None:
            path = Path(self.directory, *module.split(".")).with_suffix(".py")
        else:
            spec = importlib.util.find_spec(module)
            path = Path(spec.origin if spec is not None and spec.origin is not None else "")
        return path.read_text(encoding="utf-8")


def _installed() -> str:
    found = importlib.util.find_spec("vllm")
    if found is None or not found.submodule_search_locations:
        raise CannotRun("vllm is not installed: name its sources with --vllm")
    return str(Path(next(iter(found.submodule_search_locations))).parent)


def _load_from(directory: Path) -> None:
    if not Path(directory, *WORKER.split(".")).with_suffix(".py").is_file():
        raise CannotRun(f"{directory} does not hold vllm/v1/worker/mamba_utils.py")
    if "vllm" in sys.modules:
        if getattr(sys.modules["vllm"], "stubs_of", None) == str(directory):
            return  # an earlier case in this process
        raise CannotRun("another vllm is already imported in this process")
    sys.dont_write_bytecode = True  # the folder stays as it is
    sys.meta_path.insert(0, _Finder(directory, _stubs()))


class _Finder:
    """Finds `vllm` and everything under it: the files under test, and stubs."""

    def __init__(self, directory: Path, stubs: dict[str, dict[str, Any]]) -> None:
        self._directory, self._stubs = directory, stubs

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "vllm" and not name.startswith("vllm."):
            return None
        if name in UNDER_TEST:
            file = Path(self._directory, *name.split(".")).with_suffix(".py")
            return importlib.util.spec_from_file_location(name, file)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> types.ModuleType:
        module = _Stub(spec.name)
        module.__dict__.update(self._stubs.get(spec.name, {}), stubs_of=str(self._directory))
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing: a stub is complete."""


class _Placeholder(type):
    """The type of names that the files under test import, and do not use for this case: using one is an error."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise CannotRun(f"{cls.__qualname__}.{name} is only a stub here: install vllm, and run without --vllm")

    def __call__(cls, *_: Any, **__: Any) -> Any:
        raise CannotRun(f"{cls.__qualname__} is only a stub here: install vllm, and run without --vllm")

    def __getitem__(cls, _: Any) -> Any:
        return cls


class _Stub(types.ModuleType):
    """A module whose names are placeholders, but for those that were given."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        value = importlib.import_module(full) if full in UNDER_TEST else _Placeholder(name, (), {"__qualname__": full})
        setattr(self, name, value)
        return value


class _Logger(logging.LoggerAdapter):  # type: ignore[type-arg]
    debug_once = logging.LoggerAdapter.debug
    info_once = logging.LoggerAdapter.info
    warning_once = logging.LoggerAdapter.warning


@dataclasses.dataclass(frozen=True)
class KVCacheSpec:
    block_size: int


class AttentionSpec(KVCacheSpec):
    pass


class FullAttentionSpec(AttentionSpec):
    pass


@dataclasses.dataclass(frozen=True)
class MambaSpec(KVCacheSpec):
    shapes: Any
    dtypes: Any
    mamba_type: Any
    mamba_cache_mode: str
    num_speculative_blocks: int


@dataclasses.dataclass(frozen=True)
class UniformTypeKVCacheSpecs(KVCacheSpec):
    kv_cache_specs: Any

    @property
    def first_spec(self) -> Any:
        return next(iter(self.kv_cache_specs.values()))


@dataclasses.dataclass
class KVCacheGroupSpec:
    layer_names: list[str]
    kv_cache_spec: Any


@dataclasses.dataclass
class KVCacheConfig:
    num_blocks: int
    kv_cache_tensors: Any
    kv_cache_groups: Any


class _Base:
    """Takes the place of the classes that those of the V2 runner's model state extend."""


def _stubs() -> dict[str, dict[str, Any]]:
    import triton
    import triton.language

    specs = (KVCacheSpec, AttentionSpec, FullAttentionSpec, MambaSpec, UniformTypeKVCacheSpecs)
    specs = (*specs, KVCacheGroupSpec, KVCacheConfig)  # type: ignore[assignment]
    return {
        "vllm.logger": {"init_logger": lambda name: _Logger(logging.getLogger(name), {})},
        "vllm.triton_utils": {"triton": triton, "tl": triton.language, "HAS_TRITON": True},
        "vllm.utils.gpu_sync_debug": {"gpu_sync_allowed": contextlib.nullcontext},
        "vllm.v1.kv_cache_interface": {spec.__name__: spec for spec in specs},
        "vllm.v1.utils": {"CpuGpuBuffer": HostBuffer},
        "vllm.v1.worker.gpu.model_states.default": {"DefaultModelState": _Base},
        "vllm.v1.worker.gpu.model_states.interface": {"ModelSpecificAttnMetadata": _Base},
    }
