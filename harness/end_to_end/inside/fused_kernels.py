"""The release's own fused Triton kernels, compiled for the CPU by the native executor and watched while they run.

A CPU build of vLLM decorates its kernels with a placeholder. So the module that holds them is loaded a second time,
under another name, with Triton in place of the placeholder; of that second copy only the kernels are used. Each launch
may touch the tensors that it was given, the block tables, and the cache tensors: anything else is left out, and
reported.
"""

from __future__ import annotations

import atexit
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from harness.kernels.executors.base import AccessSpan, AllowedSpans, Arena, dispatching
from harness.kernels.executors.native.executor import NativeExecutor
from harness.kernels.executors.native.kernel import NativeKernel
from harness.kernels.mutations.mutation import Mutation, mutate

KEPT_FAULTS = 16
"""Maximum number of faults that are kept of one run."""


class KernelFault(msgspec.Struct, frozen=True):
    """An access of a fused kernel that it may not make. `where` says which line of which program."""

    violation: str
    where: str


class ProcessMemory(Arena):
    """All memory of this process: offsets in it are addresses. Only what spans allow may be touched."""

    def __init__(self) -> None:
        self.size, self.address = 1 << 47, 0

    def write(self, offset: int, data: np.ndarray) -> None:
        raise NotImplementedError("tensors of the engine are written by the engine")

    def read(self, offset: int, size: int) -> np.ndarray:
        raise NotImplementedError("tensors of the engine are read by the engine")

    def tensor(
        self, offset: int, size: int, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]
    ) -> torch.Tensor:
        raise NotImplementedError("tensors of the engine are made by the engine")


class FusedKernels:
    """The kernels of one module of the release, with planted faults. `faults` are the accesses that were refused, and
    `launches` all that were made, since `forget`."""

    def __init__(self, module: str, mutations: Sequence[Mutation] = ()) -> None:
        self._executor = NativeExecutor(checks=True, lines=False)
        self._memory = ProcessMemory()
        self._spans: tuple[AccessSpan, ...] = ()
        self._seen: dict[tuple[Any, ...], tuple[AccessSpan, ...]] = {}
        self.faults: list[KernelFault] = []
        self.launches = 0
        copy = _second_copy(module, self._executor, mutations)
        self.kernels: dict[str, Any] = {
            name: _Launches(self, value) for name, value in vars(copy).items() if isinstance(value, NativeKernel)
        }

    def begin(self, spans: tuple[AccessSpan, ...]) -> None:
        """Serve the engine that has this memory."""
        if spans is not self._spans:
            self._spans, self._seen = spans, {}

    @staticmethod
    def memory(tables: Sequence[torch.Tensor], caches: Sequence[torch.Tensor]) -> tuple[AccessSpan, ...]:
        """The memory of an engine with these block tables, which kernels may only read, and these cache tensors."""
        spans = [_span(tensor, "a block table", writable=False) for tensor in tables]
        storages = {tensor.untyped_storage().data_ptr(): tensor for tensor in caches}
        for address, tensor in storages.items():
            spans.append(AccessSpan(address, tensor.untyped_storage().nbytes(), "cache", "a cache tensor"))
        return tuple(spans)

    def forget(self) -> None:
        """Forget launches and refused accesses."""
        self.faults, self.launches = [], 0

    def launch(self, kernel: NativeKernel, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Run a kernel under watch."""
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        key = tuple((tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()) for tensor in given)
        more = self._seen.get(key)
        if more is None:
            more = tuple(_span(tensor, "an argument") for tensor in given)
            self._seen = {**self._seen, key: more} if len(self._seen) < 64 else {key: more}
        self._executor.begin(self._memory, AllowedSpans(self._spans, more))
        kernel[grid](*args, **kwargs)
        self.launches += 1
        for fault in self._executor.faults():
            if len(self.faults) < KEPT_FAULTS:
                self.faults.append(KernelFault(fault.violation, fault.where))


class _Launches:
    """Stands where the release's kernel stood: `kernel[grid](...)`."""

    def __init__(self, kernels: FusedKernels, kernel: NativeKernel) -> None:
        self._kernels, self._kernel = kernels, kernel
        self.__name__ = kernel.fn.__name__
        self.arg_names = kernel.arg_names

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *args, **kwargs: self._kernels.launch(self._kernel, grid, args, kwargs)


def _span(tensor: torch.Tensor, name: str, *, writable: bool = True) -> AccessSpan:
    """The bytes between the first and the last element of a tensor."""
    reach = sum((size - 1) * abs(stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    size = (reach + 1) * tensor.element_size() if tensor.numel() else 0
    return AccessSpan(tensor.data_ptr(), size, name, name, writable)


def _second_copy(module: str, executor: NativeExecutor, mutations: Sequence[Mutation]) -> Any:
    """A module of the release, loaded once more with real Triton kernels whose launches reach `executor`."""
    import triton
    import triton.language

    __import__(module)  # all that it imports is there now, with the placeholder
    utilities = sys.modules["vllm.triton_utils"]
    placeholders = {name: getattr(utilities, name) for name in ("triton", "tl") if hasattr(utilities, name)}
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    name = f"fused_kernels_of_{module.replace('.', '_')}"
    renamed = importlib.util.spec_from_file_location(name, _with_faults(module, spec.origin, mutations))
    assert renamed is not None
    assert renamed.loader is not None
    copy = importlib.util.module_from_spec(renamed)
    sys.modules[name] = copy  # Triton looks for the module of a kernel's globals
    real: dict[str, Any] = {"triton": triton, "tl": triton.language}
    try:
        for held in placeholders:
            setattr(utilities, held, real[held])
        with dispatching(executor):
            renamed.loader.exec_module(copy)
    finally:
        for held, value in placeholders.items():
            setattr(utilities, held, value)
    return copy


def _with_faults(module: str, origin: str, mutations: Sequence[Mutation]) -> str:
    """The file of a module, or of a copy with planted faults, which lives as long as this process: Triton reads kernels
    from their file."""
    if not mutations:
        return origin
    file = f"{module.replace('.', '/')}.py"
    source = mutate("vllm", {file: Path(origin).read_text(encoding="utf-8")}, mutations)[file]
    folder = tempfile.mkdtemp(prefix="mutated-kernels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    place = Path(folder) / Path(origin).name
    place.write_text(source, encoding="utf-8")
    return str(place)
