"""The builtin target is our own fused kernels (kernels/fused), loaded so that faults can be planted in
them."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from harness.case import ConvState
from harness.kernels.executors.base import Executor
from harness.kernels.mutations.mutation import Mutation, mutate
from harness.kernels.targets.arguments import AdvanceArrays
from harness.kernels.targets.base import (
    Allocate,
    Bound,
    LayoutTensors,
    PostprocessArrays,
    PrecopyArrays,
    Target,
)
from harness.kernels.targets.loading import is_loaded_text, load_module

if TYPE_CHECKING:
    import torch

    from harness.case import Layout
    from harness.kernels.fused.context import BoundState, FusedContext

_PACKAGE = "harness.kernels.fused"
_FOLDER = Path(__file__).parent.parent / "fused"
_MODULES = ("record", "copy", "postprocess", "precopy", "advance", "context")
"""The modules of the package, each after those it imports; the last one has everything in its namespace."""


def load_kernels(executor: Executor, mutations: Sequence[Mutation]) -> ModuleType:
    """Load our fused kernels, mutated, and return their `context` module. Raises MutationMismatch."""
    paths = {f"fused/{module}.py": _FOLDER / f"{module}.py" for module in _MODULES}
    sources = {file: path.read_text(encoding="utf-8") for file, path in paths.items()}
    mutated = mutate("builtin", sources, mutations)
    with _replacing(f"{_PACKAGE}.{module}" for module in _MODULES):
        for file, path in paths.items():
            unchanged = path if mutated[file] == sources[file] else None
            loaded = load_module(f"{_PACKAGE}.{path.stem}", mutated[file], executor, path=unchanged)
    return loaded


class BuiltinTarget(Target):
    """Our own fused kernels, with planted mutations if any are given. Raises MutationMismatch."""

    mapping_bits = 32

    def __init__(self, executor: Executor, mutations: Sequence[Mutation] = ()) -> None:
        self.name = "+".join(["builtin", *(mutation.name for mutation in mutations)])
        module = load_kernels(executor, mutations)
        self._context: type[FusedContext] = module.FusedContext
        self._bound_state: type[BoundState] = module.BoundState
        self._tiles: int = module.TEMPORAL_TILES

    def with_temporal_tiles(self, tiles: int) -> BuiltinTarget:
        other = copy.copy(self)
        other._tiles = tiles
        return other

    def owns(self, file: str) -> bool:
        return is_loaded_text(file) or Path(file).is_relative_to(_FOLDER)

    def bind(self, layout: Layout, tensors: LayoutTensors, allocate: Allocate) -> BoundBuiltin:
        states = [
            [
                self._bound_state(tensor, "conv" if isinstance(state, ConvState) else "temporal")
                for layer, layer_tensors in zip(group.layers, group_tensors, strict=True)
                for state, tensor in zip(layer.states, layer_tensors, strict=True)
            ]
            for group, group_tensors in zip(layout.groups, tensors.states, strict=True)
        ]
        context = self._context(
            states,
            tensors.tables,
            conv_layout=layout.conv_layout,
            block_size=layout.block_size,
            allocate=allocate,
            tiles=self._tiles,
        )
        return BoundBuiltin(context)


class BoundBuiltin(Bound):
    """A fused context behind the interface of targets."""

    def __init__(self, context: FusedContext) -> None:
        self._context = context

    @property
    def accepted_out(self) -> torch.Tensor:
        return self._context.accepted_out

    def postprocess(self, arrays: PostprocessArrays) -> None:
        if arrays.runner == "V1":
            assert arrays.scheduled is not None
            assert arrays.computed is not None
            assert arrays.draft is not None
            self._context.postprocess(
                arrays.num_requests,
                arrays.accepted,
                arrays.state_column,
                arrays.scheduled,
                arrays.computed,
                arrays.draft,
            )
        else:
            assert arrays.new_computed is not None
            assert arrays.mapping is not None
            self._context.postprocess_in_place(
                arrays.num_requests,
                arrays.accepted,
                arrays.state_column,
                arrays.new_computed,
                arrays.mapping,
            )

    def precopy(self, arrays: PrecopyArrays) -> None:
        self._context.precopy(
            arrays.num_requests,
            arrays.source_column,
            arrays.destination_column,
            arrays.bias,
            arrays.mapping,
        )

    def advance(self, arrays: AdvanceArrays) -> None:
        self._context.advance(
            arrays.num_requests,
            arrays.mapping,
            arrays.query_start,
            arrays.computed,
            arrays.state_column,
            arrays.accepted,
            arrays.source_column,
            arrays.bias,
        )


@contextmanager
def _replacing(names: Iterator[str]) -> Iterator[None]:
    """Leave `sys.modules` as it was, so that a mutated module is never what an import elsewhere finds."""
    before = {name: sys.modules.get(name) for name in names}
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
