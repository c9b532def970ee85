"""A vLLM target drives the fused kernels of one version of vLLM through that version's own entry points.

The context is created, bound to the tensors, and called as the model runner does it; grids, tile counts and compile-
time constants stay production's. What differs from version to version is in features.py.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import torch

from harness.case import ConvLayout, Layout
from harness.kernels.executors.base import Executor
from harness.kernels.mutations.mutation import Mutation, mutate
from harness.kernels.targets.base import (
    Allocate,
    Bound,
    LayoutTensors,
    Target,
)
from harness.kernels.targets.vllm.allocation import Allocations, attribute_names, on_device
from harness.kernels.targets.vllm.bound import VllmBound
from harness.kernels.targets.vllm.contracts import check_groups, check_layout
from harness.kernels.targets.vllm.features import CONTEXT, Features, dim_first_contract, features
from harness.kernels.targets.vllm.importing import Finder, import_under_test, install, uninstall
from harness.kernels.targets.vllm.replacements import CONV_LAYOUT_VARIABLE, ENVS, replacements
from harness.kernels.targets.vllm.runner import Kinds, Runner, runner
from harness.kernels.targets.vllm.sources import HYBRID, LAYERS, MATH, WORKER, SourceTree

UNDER_TEST = (MATH, LAYERS, WORKER)
"""The files that run as they are. All else is replaced."""


class VllmTarget(Target):
    """One version of vLLM. `rows_by` says whether its table rows are request slots or batch rows."""

    def __init__(self, name: str, tree: SourceTree, executor: Executor, mutations: Sequence[Mutation] = ()) -> None:
        self.name = name
        self.features: Features = features(tree)
        self.mapping_bits = self.features.mapping_bits
        self.rows_by = self.features.rows_by
        self._refuses_dim_first = dim_first_contract(tree)
        self.device = executor.device

        files = (*UNDER_TEST, HYBRID) if self.features.advance else UNDER_TEST
        original = {file: tree.text(file) for file in files}
        sources = mutate("vllm", original, mutations)
        paths = {file: tree.path(file) for file in sources if tree.stable and sources[file] == original[file]}
        finder = Finder(sources, paths, replacements(), executor)
        install(finder)
        try:
            self._layers = import_under_test(tree.origin, LAYERS)
            self._worker = import_under_test(tree.origin, WORKER)
            self.hybrid = import_under_test(tree.origin, HYBRID) if HYBRID in files else None
        except BaseException:
            uninstall(finder)
            raise
        self._files = {module.__file__ for module in (self._layers, self._worker, self.hybrid) if module}
        self._environment = importlib.import_module(ENVS)
        self._conv_layout: ConvLayout | None = None
        self._copy_functions = {
            "conv": self._worker.get_conv_copy_spec,
            "temporal": self._worker.get_temporal_copy_spec,
        }
        self._names: Sequence[str] | None = None

    def bind(self, layout: Layout, tensors: LayoutTensors, allocate: Allocate) -> Bound:
        """Create the version's context over these tensors. Raises TargetLacks or OutsideContract."""
        check_layout(self.features, self._refuses_dim_first, layout, tensors)
        objects = runner(layout, tensors)
        check_groups(self.features, objects)
        self.use(layout.conv_layout)
        context = self._context(layout, objects, tensors.tables, allocate)
        if not self.features.v2 or self.features.rows_by == "slot":
            return VllmBound(self, layout, objects, tensors.tables, context, context, ())
        gathered = [
            allocate(f"batch-order table {g}", tuple(table.shape), torch.int32)
            for g, table in enumerate(tensors.tables)
        ]
        for batch_order, table in zip(gathered, tensors.tables, strict=True):
            batch_order.copy_(table)  # rows past the batch are stale, but in range
        batch_context = self._context(layout, objects, gathered, allocate, prefix="batch-order ")
        return VllmBound(self, layout, objects, tensors.tables, context, batch_context, gathered)

    def owns(self, file: str) -> bool:
        return file in self._files

    def use(self, conv_layout: ConvLayout) -> None:
        """Set SD or DS for the next call: one setting for the whole process, whose answer vLLM keeps."""
        if conv_layout == self._conv_layout:
            return
        setattr(self._environment, CONV_LAYOUT_VARIABLE, conv_layout)
        _forget_answers(self._layers)
        self._conv_layout = conv_layout

    def _context(
        self,
        layout: Layout,
        objects: Runner,
        tables: Sequence[torch.Tensor],
        allocate: Allocate,
        prefix: str = "",
    ) -> Any:
        if self._names is None:
            rehearsal = Allocations(self.device, on_device(self.device))
            self._names = attribute_names(self._create(layout, objects, tables, rehearsal), rehearsal.served)
        return self._create(layout, objects, tables, Allocations(self.device, allocate, self._names, prefix))

    def _create(self, layout: Layout, objects: Runner, tables: Sequence[torch.Tensor], allocations: Allocations) -> Any:
        by_layer = {kinds: tuple(self._copy_functions[kind] for kind in kinds) for kinds in objects.layer_kinds}
        one_for_all = by_layer[objects.layer_kinds[0]]
        which: Mapping[str, Any] = (
            {"copy_funcs": by_layer} if self.features.states_per_layer else {"num_state_types": len(one_for_all)}
        )
        functions: Mapping[Kinds, Any] | tuple[Any, ...] = by_layer if self.features.states_per_layer else one_for_all
        with allocations:
            context = getattr(self._worker, CONTEXT).create(
                max_num_reqs=layout.table_rows,
                kv_cache_config=objects.config,
                device=self.device,
                make_buffer=allocations.make_buffer,
                **which,
            )
            context.initialize_from_forward_context(objects.config, objects.forward_context, functions, list(tables))
        return context


def _forget_answers(module: ModuleType) -> None:
    """Clear the caches of all cached functions of a module under test."""
    for value in vars(module).values():
        if isinstance(value, _Cached) and value.__module__ == module.__name__:
            value.cache_clear()


_Cached = type(functools.lru_cache(_forget_answers))
