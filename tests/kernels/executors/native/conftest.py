"""A workbench for executor tests: sample kernels, and tensors in an arena with a span and guards around each."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from harness.kernels.executors.base import AccessSpan, Arena, Executor, dispatching
from harness.kernels.executors.native.executor import NativeExecutor

SAMPLES = Path(__file__).with_name("sample_kernels.py")
GUARD = 256


def load_module(executor: Executor, path: Path) -> ModuleType:
    """The module in `path`, with its kernels made by `executor`."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with dispatching(executor):
        spec.loader.exec_module(module)
    return module


class Workbench:
    """An executor, the sample kernels, and an arena to put tensors in."""

    def __init__(self, executor: NativeExecutor, size: int = 1 << 20) -> None:
        self.executor = executor
        self.kernels = load_module(executor, SAMPLES)
        self.arena: Arena = executor.allocate(size)
        self.spans: list[AccessSpan] = []
        self._end = GUARD

    def put(self, values: Any, dtype: torch.dtype) -> torch.Tensor:
        """A tensor in the arena, with its own span."""
        content = torch.tensor(values, dtype=dtype)
        size = content.numel() * content.element_size()
        start = self._end
        self._end = start + (size + GUARD - 1) // GUARD * GUARD + GUARD
        self.spans.append(AccessSpan(start, size, "object", f"object {len(self.spans)}"))
        tensor = self.arena.tensor(start, size, dtype, content.shape, content.stride())
        tensor.copy_(content)
        self.begin()
        return tensor

    def load(self, path: Path) -> ModuleType:
        return load_module(self.executor, path)

    def begin(self, spans: Sequence[AccessSpan] | None = None) -> None:
        self.executor.begin(self.arena, self.spans if spans is None else spans)

    def offset(self, tensor: torch.Tensor) -> int:
        return tensor.data_ptr() - self.arena.address

    def snapshot(self) -> np.ndarray:
        return self.arena.read(0, self._end + GUARD).copy()


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tests of one run share compiled variants, so that each is compiled once."""
    return tmp_path_factory.mktemp("variants")


@pytest.fixture
def make_bench(cache: Path) -> Callable[..., Workbench]:
    def make(size: int = 1 << 20, **options: Any) -> Workbench:
        return Workbench(NativeExecutor(**{"cache": cache, **options}), size)

    return make


@pytest.fixture
def bench(make_bench: Callable[..., Workbench]) -> Iterator[Workbench]:
    """A checking bench; a test that expects faults reads them and begins anew."""
    made = make_bench()
    yield made
    assert made.executor.faults() == ()
